"""Collective calls on tensors; every member of the group makes them, in the same order.

Outside of a job, or in a job of one process, they are about that process alone.
"""

from __future__ import annotations

from typing import Any

from ..._names import set_public_names
from . import stream
from .group import Group
from .reduce_op import ReduceOp


def all_reduce(
    tensor: Any, op: int = ReduceOp.SUM, group: Group | None = None, sync_op: bool = True
) -> Any:
    """The tensor becomes the sum (or what `op` says) of those of all processes.

    With `sync_op=False` it does so when `wait()` of the task that is returned has ended.

    >>> x = paddle.to_tensor([[4, 5, 6]])
    >>> task = paddle.distributed.all_reduce(x)
    >>> x.tolist()
    [[4, 5, 6]]
    """
    return stream.all_reduce(tensor, op, group, sync_op)


def reduce(
    tensor: Any, dst: int, op: int = ReduceOp.SUM, group: Group | None = None, sync_op: bool = True
) -> Any:
    """As `all_reduce`, in process `dst` alone; the tensors of others stay as they are.

    >>> x = paddle.ones([2])
    >>> task = paddle.distributed.reduce(x, dst=0)
    >>> x.tolist()
    [1.0, 1.0]
    """
    return stream.reduce(tensor, dst, op, group, sync_op)


def broadcast(tensor: Any, src: int, group: Group | None = None, sync_op: bool = True) -> Any:
    """The tensor becomes that of process `src`.

    >>> x = paddle.ones([2])
    >>> task = paddle.distributed.broadcast(x, src=0)
    >>> x.tolist()
    [1.0, 1.0]
    """
    return stream.broadcast(tensor, src, group, sync_op)


def all_gather(
    tensor_list: list[Any], tensor: Any, group: Group | None = None, sync_op: bool = True
) -> Any:
    """`tensor_list`, empty or with a tensor for each process, becomes the tensors of all.

    >>> tensors = []
    >>> task = paddle.distributed.all_gather(tensors, paddle.to_tensor([4, 5]))
    >>> [tensor.tolist() for tensor in tensors]
    [[4, 5]]
    """
    return stream.all_gather(tensor_list, tensor, group, sync_op)


def gather(
    tensor: Any,
    gather_list: list[Any] | None = None,
    dst: int = 0,
    group: Group | None = None,
    sync_op: bool = True,
) -> Any:
    """As `all_gather`, in process `dst` alone.

    >>> tensors = []
    >>> task = paddle.distributed.gather(paddle.to_tensor([4, 5]), tensors, dst=0)
    >>> [tensor.tolist() for tensor in tensors]
    [[4, 5]]
    """
    return stream.gather(tensor, gather_list, dst, group, sync_op)


def scatter(
    tensor: Any,
    tensor_list: list[Any] | None = None,
    src: int = 0,
    group: Group | None = None,
    sync_op: bool = True,
) -> Any:
    """The tensor becomes this process's one of the list that process `src` has.

    >>> x = paddle.zeros([2])
    >>> task = paddle.distributed.scatter(x, [paddle.ones([2])], src=0)
    >>> x.tolist()
    [1.0, 1.0]
    """
    return stream.scatter(tensor, tensor_list, src, group, sync_op)


def reduce_scatter(
    tensor: Any,
    tensor_list: list[Any],
    op: int = ReduceOp.SUM,
    group: Group | None = None,
    sync_op: bool = True,
) -> Any:
    """The tensor becomes the sum (or what `op` says) of all processes' tensors for this one.

    >>> x = paddle.zeros([2])
    >>> task = paddle.distributed.reduce_scatter(x, [paddle.ones([2])])
    >>> x.tolist()
    [1.0, 1.0]
    """
    return stream.reduce_scatter(tensor, tensor_list, op, group, sync_op)


def alltoall(
    in_tensor_list: list[Any],
    out_tensor_list: list[Any],
    group: Group | None = None,
    sync_op: bool = True,
) -> Any:
    """Process i gets from each process the tensor i of its list; shapes may differ.

    >>> out = []
    >>> task = paddle.distributed.alltoall([paddle.to_tensor([1, 2])], out)
    >>> [tensor.tolist() for tensor in out]
    [[1, 2]]
    """
    return stream.alltoall(out_tensor_list, in_tensor_list, group, sync_op)


def alltoall_single(
    in_tensor: Any,
    out_tensor: Any,
    in_split_sizes: list[int] | None = None,
    out_split_sizes: list[int] | None = None,
    group: Group | None = None,
    sync_op: bool = True,
) -> Any:
    """As `alltoall`, of the rows of one tensor, in equal parts or as the sizes say.

    >>> out = paddle.zeros([2])
    >>> task = paddle.distributed.alltoall_single(paddle.ones([2]), out)
    >>> out.tolist()
    [1.0, 1.0]
    """
    return stream.alltoall_single(
        out_tensor, in_tensor, out_split_sizes, in_split_sizes, group, sync_op
    )


set_public_names(__name__)
