"""Tensors from one process to another.

What one process sends the other must receive, in the same order. A `send` may wait until the
other side receives: two processes that send to each other do so by `isend`, or in a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import _core
from ..._names import set_public_names
from . import stream
from .group import Group, all_processes, group_of, is_outsider


def send(tensor: Any, dst: int = 0, group: Group | None = None, sync_op: bool = True) -> Any:
    """Sends a tensor to process `dst`, which calls `recv`."""
    return stream.send(tensor, dst, group, sync_op)


def recv(tensor: Any, src: int = 0, group: Group | None = None, sync_op: bool = True) -> Any:
    """The tensor becomes what process `src` sends; shape and type are those of the sender."""
    return stream.recv(tensor, src, group, sync_op)


def isend(tensor: Any, dst: int, group: Group | None = None) -> Any:
    """As `send`, without waiting: the task that is returned is waited for."""
    return send(tensor, dst, group, sync_op=False)


def irecv(tensor: Any, src: int | None = None, group: Group | None = None) -> Any:
    """As `recv`, without waiting: the task that is returned is waited for."""
    return recv(tensor, 0 if src is None else src, group, sync_op=False)


class P2POp:
    """One `isend` or `irecv` for `batch_isend_irecv`.

    >>> operation = paddle.distributed.P2POp(paddle.distributed.isend, paddle.ones([1]), 0)
    >>> operation.peer
    0
    """

    def __init__(
        self, op: Callable[..., Any], tensor: Any, peer: int, group: Group | None = None
    ) -> None:
        if op not in (isend, irecv):
            raise RuntimeError(
                "Invalid ``op`` function. Expected ``op`` to be of type"
                " ``paddle.distributed.isend`` or ``paddle.distributed.irecv``."
            )
        self.op, self.tensor, self.peer = op, tensor, peer
        self.group = group_of(group)


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Any] | None:
    """Starts several sends and receives; returns their tasks.

    >>> paddle.distributed.batch_isend_irecv([])
    Traceback (most recent call last):
    ...
    RuntimeError: Invalid ``p2p_op_list``. Each op is expected to to be of type ``paddle.distributed.P2POp``.
    """
    fits = isinstance(p2p_op_list, list) and p2p_op_list
    if not fits or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise RuntimeError(
            "Invalid ``p2p_op_list``. Each op is expected to to be of type"
            " ``paddle.distributed.P2POp``."
        )
    if not _core.in_dynamic_mode():
        raise RuntimeError("Don't support static graph mode currently.")
    if is_outsider(p2p_op_list[0].group):
        return None
    # Sends first: they need nobody to have received yet, while a receive waits for a send.
    tasks: dict[int, Any] = {}
    for wanted in (isend, irecv):
        for at, operation in enumerate(p2p_op_list):
            if operation.op is wanted:
                tasks[at] = wanted(operation.tensor, operation.peer, operation.group)
    return [tasks[at] for at in sorted(tasks)]


def rank_here() -> int:
    """The number of this process in the job.

    >>> from bireme.distributed.communication.point_to_point import rank_here
    >>> rank_here()
    0
    """
    return all_processes().rank


set_public_names(__name__, but="rank_here")
