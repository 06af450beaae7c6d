"""`fleet.util`: what the processes of a job tell each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..communication.group import all_processes
from ..parallel import get_rank, get_world_size
from .exchange import decode, encode, reduce


class UtilBase:
    """Sums, barriers and shares of files over the processes of a job.

    In a job with parameter servers they go through these, from `init_worker` on; in a collective
    job the processes talk to each other.

    >>> paddle.distributed.fleet.util.get_file_shard(["a", "b"])
    ['a', 'b']
    """

    def __init__(self, job: Any = None) -> None:
        self._job = job

    def get_file_shard(self, files: list[str]) -> list[str]:
        """The files of this process: the list cut into equal runs, the first ones a file longer.

        >>> paddle.distributed.fleet.util.get_file_shard(["a", "b", "c"])
        ['a', 'b', 'c']
        """
        return share_of(files, *self._place())

    def all_reduce(self, input: Any, mode: str = "sum", comm_world: str = "worker") -> np.ndarray:
        """The sum, min or max over processes, element by element.

        >>> paddle.distributed.fleet.util.all_reduce([1, 2]).tolist()
        [1, 2]
        """
        if mode not in ("sum", "min", "max"):
            raise ValueError(f"`mode` must be sum, min or max, not {mode!r}")
        return reduce(self.all_gather(np.asarray(input), comm_world), mode)

    def all_gather(self, input: Any, comm_world: str = "worker") -> list[Any]:
        """The value of each process.

        >>> paddle.distributed.fleet.util.all_gather(7)
        [7]
        """
        runtime = self._runtime(comm_world)
        if runtime is not None:
            return runtime.all_gather(input, comm_world)
        if get_world_size() == 1:
            return [input]
        parts = all_processes().process_group.all_gather_bytes(encode(input))
        return [decode(part) for part in parts]

    def barrier(self, comm_world: str = "worker") -> None:
        """Waits for the other processes.

        >>> paddle.distributed.fleet.util.barrier()
        """
        runtime = self._runtime(comm_world)
        if runtime is not None:
            runtime.barrier(comm_world)
        elif get_world_size() > 1:
            all_processes().process_group.barrier()

    def print_on_rank(self, message: str, rank_id: int) -> None:
        """Prints in one of the processes.

        >>> paddle.distributed.fleet.util.print_on_rank("hello", 0)
        hello
        """
        if self._place()[0] == rank_id:
            print(message)

    def get_heter_file_shard(self, files: list[str]) -> list[str]:
        """The files of this heter worker: those of the worker of the same number, as in Paddle.

        >>> paddle.distributed.fleet.util.get_heter_file_shard(["a", "b"])
        ['a', 'b']
        """
        return share_of(files, *self._place())

    def _all_to_all(self, parts: list[bytes]) -> list[bytes]:
        """Part `i` of each worker for worker `i`; what the others have for this one."""
        rank, _ = self._place()
        blob = np.frombuffer(b"".join(parts), "uint8")
        sizes = np.array([len(part) for part in parts], "int64")
        own = []
        for sizes, blob in zip(self.all_gather(sizes), self.all_gather(blob), strict=True):
            start = int(sizes[:rank].sum())
            own.append(blob[start : start + int(sizes[rank])].tobytes())
        return own

    def _place(self) -> tuple[int, int]:
        identity = self._job and self._job._distributed_identity()
        if identity:
            return identity.index, identity.worker_num
        return get_rank(), get_world_size()

    def _runtime(self, comm_world: str) -> Any:
        if comm_world not in ("worker", "server", "all"):
            raise ValueError(f"`comm_world` must be worker, server or all, not {comm_world!r}")
        if self._job is None or self._job._distributed_identity() is None:
            return None
        return self._job._runtime_handle()


def share_of(files: list[str], rank: int, size: int) -> list[str]:
    """The run of a list that process `rank` of `size` gets.

    >>> share_of(["a", "b", "c", "d", "e"], 1, 2)
    ['d', 'e']
    """
    if not isinstance(files, list):
        raise TypeError("files should be a list of file need to be read.")
    if rank >= size:
        raise ValueError(f"process {rank} is none of {size}: see `PADDLE_TRAINERS_NUM`")
    share, longer = divmod(len(files), size)
    start = rank * share + min(rank, longer)
    return files[start : start + share + (rank < longer)]
