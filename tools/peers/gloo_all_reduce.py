"""All-reduce of Gloo through PyTorch, timed on command.

Started once for each rank with `RANK`, `WORLD_SIZE`, `MASTER_ADDR` and `MASTER_PORT`; reads lines
"BYTES CALLS" from standard input. Rank 0 answers each with the seconds that one call took on the
slowest rank.
"""

import sys
import time

import torch
import torch.distributed as dist


def measure(length: int, calls: int) -> float:
    """Seconds of one call on the slowest rank."""
    data = torch.ones(length // 4)
    dist.barrier()
    dist.all_reduce(data)
    dist.barrier()
    start = time.perf_counter()
    for _ in range(calls):
        dist.all_reduce(data)
    slowest = torch.tensor((time.perf_counter() - start) / calls, dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return slowest.item()


def main() -> None:
    """Answers commands until there are no more."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    is_first = dist.get_rank() == 0
    if is_first:
        print("ready", flush=True)
    for line in sys.stdin:
        length, calls = map(int, line.split())
        seconds = measure(length, calls)
        if is_first:
            print(f"{seconds:.9e}", flush=True)
    dist.destroy_process_group()


main()
