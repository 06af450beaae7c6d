"""Barriers of processes that have not been started by a launcher."""

from __future__ import annotations

from typing import Any

from .. import _core
from .._names import set_public_names

_group: Any = None


def gloo_init_parallel_env(rank_id: int, rank_num: int, server_endpoint: str) -> None:
    """Meets `rank_num - 1` other processes; the first is reached at `server_endpoint`.

    The others listen on the ports after that one.
    """
    global _group
    if rank_num < 2:
        raise ValueError(
            "rank_num should greater than or equal to 2 for parallel environment initialzation."
        )
    host, _, port = server_endpoint.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(
            f"`server_endpoint` must be like `127.0.0.1:36011`, got {server_endpoint!r}"
        )
    endpoints = [f"{host}:{int(port) + rank}" for rank in range(rank_num)]
    _group = _core.ProcessGroup.connect(rank_id, endpoints)


def gloo_barrier() -> None:
    """Waits for all processes that `gloo_init_parallel_env` has met."""
    if _group is None:
        raise RuntimeError("gloo context is not initialzed.")
    _group.barrier()


def gloo_release() -> None:
    """Lets go of the other processes.

    >>> paddle.distributed.gloo_release() is None
    True
    """
    global _group
    _group = None


set_public_names(__name__)
