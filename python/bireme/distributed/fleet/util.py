"""`fleet.util`: what scripts ask about a job, here of one process."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..environment import get_rank, get_world_size, require_one_process


class UtilBase:
    """Sums, barriers and shares of files over the processes of a job.

    >>> paddle.distributed.fleet.util.get_file_shard(["a", "b"])
    ['a', 'b']
    """

    def get_file_shard(self, files: list[str]) -> list[str]:
        """The files of this process: the list cut into equal runs, the first ones a file longer.

        >>> paddle.distributed.fleet.util.get_file_shard(["a", "b", "c"])
        ['a', 'b', 'c']
        """
        if not isinstance(files, list):
            raise TypeError(f"`files` must be a list of paths, not {type(files).__name__}")
        rank, size = get_rank(), get_world_size()
        if rank >= size:
            raise ValueError(f"process {rank} is none of {size}: see `PADDLE_TRAINERS_NUM`")
        share, longer = divmod(len(files), size)
        start = rank * share + min(rank, longer)
        return files[start : start + share + (rank < longer)]

    def all_reduce(self, input: Any, mode: str = "sum", comm_world: str = "worker") -> np.ndarray:
        """The sum, min or max over processes: of one it is `input` itself.

        >>> paddle.distributed.fleet.util.all_reduce([1, 2]).tolist()
        [1, 2]
        """
        _check_world(comm_world)
        if mode not in ("sum", "min", "max"):
            raise ValueError(f"`mode` must be sum, min or max, not {mode!r}")
        return np.asarray(input)

    def all_gather(self, input: Any, comm_world: str = "worker") -> list[Any]:
        """The value of each process.

        >>> paddle.distributed.fleet.util.all_gather(7)
        [7]
        """
        _check_world(comm_world)
        return [input]

    def barrier(self, comm_world: str = "worker") -> None:
        """Waits for the other processes: there are none.

        >>> paddle.distributed.fleet.util.barrier()
        """
        _check_world(comm_world)

    def print_on_rank(self, message: str, rank_id: int) -> None:
        """Prints in one of the processes.

        >>> paddle.distributed.fleet.util.print_on_rank("hello", 0)
        hello
        """
        if get_rank() == rank_id:
            print(message)


def _check_world(comm_world: str) -> None:
    require_one_process()
    if comm_world not in ("worker", "server", "all"):
        raise ValueError(f"`comm_world` must be worker, server or all, not {comm_world!r}")
