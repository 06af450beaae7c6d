"""`fleet.util`: what the processes of a job tell each other."""

from __future__ import annotations

import socket
from typing import Any

import numpy as np

from ... import _core
from .. import environment
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

        >>> paddle.distributed.fleet.util.barrier() is None
        True
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

    def _exchange(self) -> tuple[Any, Any]:
        """What brings bytes to each worker, and what ends it; all workers must ask together.

        Workers with servers meet in a group of their own; where they cannot reach each other, bytes
        go through server 0.
        """
        rank, _ = self._place()
        if self._runtime("worker") is None:
            return all_processes().process_group.all_to_all_bytes, lambda: None
        endpoints = self.all_gather(self._free_endpoint())
        if not all(endpoints):
            return lambda parts: self._relay(rank, parts), lambda: None
        group = _core.ProcessGroup.connect(rank, endpoints)
        # Nobody leaves while others still wait for what it sent.
        return group.all_to_all_bytes, group.barrier

    def _file_share(self) -> Any:
        """Files that all workers draw from; all must ask together."""
        rank, size = self._place()
        if size == 1:
            return _core.FileShare(0, "127.0.0.1", lambda own: [own])
        host = self._own_host() if self._runtime("worker") is not None else self._rank_host()
        return _core.FileShare(rank, host or None, self._gather_bytes)

    def _gather_bytes(self, own: bytes) -> list[bytes]:
        parts = self.all_gather(np.frombuffer(own, "uint8"))
        return [part.tobytes() for part in parts]

    def _relay(self, rank: int, parts: list[bytes]) -> list[bytes]:
        sizes = self.all_gather(np.array([len(part) for part in parts], "int64"))
        blobs = self.all_gather(np.frombuffer(b"".join(parts), "uint8"))
        starts = [int(own[:rank].sum()) for own in sizes]
        return [
            blob[start : start + int(own[rank])].tobytes()
            for start, own, blob in zip(starts, sizes, blobs, strict=True)
        ]

    def _free_endpoint(self) -> str:
        """An address by which the other workers can reach this one; empty where nobody knows it."""
        host = self._own_host()
        try:
            with socket.create_server((host, 0)) as free:
                return f"{host}:{free.getsockname()[1]}" if host else ""
        except OSError:
            return ""

    def _own_host(self) -> str:
        """The host by which other workers know this one; empty where nobody said it."""
        identity = self._job._distributed_identity()
        own = identity.worker_endpoints[identity.index : identity.index + 1]
        host = own[0].rpartition(":")[0] if own else environment.text("POD_IP", "")
        servers = {place.rpartition(":")[0] for place in identity.server_endpoints}
        if not host and servers <= {"127.0.0.1", "localhost"}:
            host = "127.0.0.1"
        return host

    def _rank_host(self) -> str:
        endpoints = environment.endpoints("PADDLE_TRAINER_ENDPOINTS")
        own = endpoints[get_rank() : get_rank() + 1]
        return own[0].rpartition(":")[0] if own else environment.text("POD_IP", "")

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
