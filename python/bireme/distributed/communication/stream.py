"""Collective calls with a say about streams, of which a CPU has one: Paddle's `stream` functions.

With `sync_op=False` a call returns at once and the task that it returns is waited for; the tensors
change when the call is over, and every process starts its calls in the same order.
"""

from __future__ import annotations

import warnings
from typing import Any

from ... import _core
from ..._missing import missing_names
from ..._names import set_public_names
from . import static_ops
from .group import Group, all_processes, group_of, is_outsider
from .reduce_op import ReduceOp, checked_op

Tensor = _core.Tensor


def all_reduce(
    tensor: Any,
    op: int = ReduceOp.SUM,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Any:
    """See `paddle.distributed.all_reduce`.

    >>> x = paddle.to_tensor([1.0, 2.0])
    >>> task = paddle.distributed.stream.all_reduce(x)
    >>> x.tolist()
    [1.0, 2.0]
    """
    if _is_left_out(group, sync_op, use_calc_stream):
        return None
    op = checked_op(op, "all_reduce")
    if not _core.in_dynamic_mode():
        return static_ops.all_reduce(tensor, op, group)
    return _pg(group).all_reduce(_tensor("tensor", tensor), op, sync_op)


def reduce(
    tensor: Any,
    dst: int = 0,
    op: int = ReduceOp.SUM,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Any:
    """See `paddle.distributed.reduce`."""
    if _is_left_out(group, sync_op, use_calc_stream):
        return None
    op = checked_op(op, "reduce")
    if not _core.in_dynamic_mode():
        return static_ops.reduce(tensor, dst, op, group)
    root = group_of(group).get_group_rank(dst)
    return _pg(group).reduce(_tensor("tensor", tensor), root, op, sync_op)


def broadcast(
    tensor: Any,
    src: int = 0,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Any:
    """See `paddle.distributed.broadcast`."""
    return _with_peer("broadcast", tensor, src, group, sync_op, use_calc_stream)


def all_gather(
    tensor_or_tensor_list: Any,
    tensor: Any,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Any:
    """See `paddle.distributed.all_gather`; the output may be one tensor too.

    >>> whole = paddle.zeros([2])
    >>> task = paddle.distributed.stream.all_gather(whole, paddle.ones([2]))
    >>> whole.tolist()
    [1.0, 1.0]
    """
    if group is not None and not group_of(group).is_member():
        raise RuntimeError(
            "The group should not be None and all ranks which invoke this operation should be"
            " the member of this group."
        )
    _check_stream(sync_op, use_calc_stream)
    if not _core.in_dynamic_mode():
        return static_ops.all_gather(tensor_or_tensor_list, tensor, group)
    mine = _tensor("tensor", tensor)
    if isinstance(tensor_or_tensor_list, Tensor):
        return _pg(group).all_gather_into(tensor_or_tensor_list, mine, sync_op)
    parts = _list("tensor_list", tensor_or_tensor_list)
    if not parts:
        parts += [_like(mine) for _ in range(group_of(group).nranks)]
    return _pg(group).all_gather(parts, mine, sync_op)


def gather(
    tensor: Any,
    gather_list: list[Any] | None = None,
    dst: int = 0,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Any:
    """See `paddle.distributed.gather`."""
    _require_eager("gather doesn't support static graph mode yet.")
    if _is_left_out(group, sync_op, use_calc_stream):
        return None
    group = group_of(group)
    root = group.get_group_rank(dst)
    mine = _tensor("tensor", tensor)
    if dst != all_processes().rank:
        if gather_list is not None:
            text = "Specific `gather_list` is meaningless for rank which is not dst."
            warnings.warn(text, stacklevel=2)
        gather_list = []
    elif gather_list is None:
        raise ValueError("gather_list must not be none for dst rank")
    elif not _list("gather_list", gather_list):
        gather_list += [_like(mine) for _ in range(group.nranks)]
    return _pg(group).gather(gather_list, mine, root, sync_op)


def scatter(
    tensor: Any,
    tensor_or_tensor_list: Any = None,
    src: int = 0,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Any:
    """See `paddle.distributed.scatter`; the input may be one tensor too."""
    if _is_left_out(group, sync_op, use_calc_stream):
        return None
    if not _core.in_dynamic_mode():
        return static_ops.scatter(tensor, tensor_or_tensor_list, src, group)
    root = group_of(group).get_group_rank(src)
    parts: list[Any] = []
    if src != all_processes().rank:
        if tensor_or_tensor_list is not None:
            text = "Specific `tensor_or_tensor_list` is meaningless for rank which is not src."
            warnings.warn(text, stacklevel=2)
    elif isinstance(tensor_or_tensor_list, Tensor):
        parts = [tensor_or_tensor_list]
    else:
        parts = _list("tensor_list", tensor_or_tensor_list or [])
        if not parts:
            raise RuntimeError("The tensor_list should not be empty on src rank.")
        if len(parts) == 1 and group_of(group).nranks > 1:
            count = group_of(group).nranks
            raise ValueError(f"`tensor_list` has 1 tensor, but the group has {count} ranks")
    return _pg(group).scatter(_tensor("tensor", tensor), parts, root, sync_op)


def reduce_scatter(
    tensor: Any,
    tensor_or_tensor_list: Any,
    op: int = ReduceOp.SUM,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Any:
    """See `paddle.distributed.reduce_scatter`; the input may be one tensor too."""
    if _is_left_out(group, sync_op, use_calc_stream):
        return None
    op = checked_op(op, "reduce_scatter")
    if not _core.in_dynamic_mode():
        return static_ops.reduce_scatter(tensor, tensor_or_tensor_list, op, group)
    if isinstance(tensor_or_tensor_list, Tensor):
        parts = [tensor_or_tensor_list]
    else:
        parts = _list("tensor_list", tensor_or_tensor_list)
    return _pg(group).reduce_scatter(_tensor("tensor", tensor), parts, op, sync_op)


def alltoall(
    out_tensor_or_tensor_list: Any,
    in_tensor_or_tensor_list: Any,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Any:
    """See `paddle.distributed.alltoall`; here the output comes first, and both may be tensors.

    >>> out = paddle.zeros([2])
    >>> task = paddle.distributed.stream.alltoall(out, paddle.ones([2]))
    >>> out.tolist()
    [1.0, 1.0]
    """
    if _is_left_out(group, sync_op, use_calc_stream):
        return None
    if out_tensor_or_tensor_list is None:
        raise RuntimeError("The output should be specified.")
    if in_tensor_or_tensor_list is None:
        raise RuntimeError("The input should be specified.")
    out, given = out_tensor_or_tensor_list, in_tensor_or_tensor_list
    if not _core.in_dynamic_mode():
        return static_ops.alltoall(out, given, group)
    if isinstance(out, Tensor) and isinstance(given, Tensor):
        return alltoall_single(out, given, group=group, sync_op=sync_op)
    if isinstance(out, Tensor) or isinstance(given, Tensor):
        text = "The output and input should be both tensor or tensor list."
        raise RuntimeError(text)  # noqa: TRY004 (as Paddle)
    inputs, outputs = _list("in_tensor_list", given), _list("out_tensor_list", out)
    if not inputs:
        raise RuntimeError("The input tensor_list should not be empty.")
    if not outputs:
        outputs += [_like(tensor) for tensor in inputs]
    return _pg(group).all_to_all(outputs, inputs, sync_op)


def alltoall_single(
    out_tensor: Any,
    in_tensor: Any,
    out_split_sizes: list[int] | None = None,
    in_split_sizes: list[int] | None = None,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Any:
    """See `paddle.distributed.alltoall_single`; here the output comes first."""
    if _is_left_out(group, sync_op, use_calc_stream):
        return None
    _require_eager(
        "paddle.distributed.stream.alltoall_single is only supported in dygraph mode now."
    )
    out, given = _tensor("out_tensor", out_tensor), _tensor("in_tensor", in_tensor)
    size = group_of(group).nranks
    out_rows = _equal_rows("out_tensor", out, size) if out_split_sizes is None else out_split_sizes
    in_rows = _equal_rows("in_tensor", given, size) if in_split_sizes is None else in_split_sizes
    return _pg(group).all_to_all_rows(out, given, list(out_rows), list(in_rows), sync_op)


def send(
    tensor: Any,
    dst: int = 0,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Any:
    """See `paddle.distributed.send`."""
    return _with_peer("send", tensor, dst, group, sync_op, use_calc_stream)


def recv(
    tensor: Any,
    src: int = 0,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Any:
    """See `paddle.distributed.recv`."""
    return _with_peer("recv", tensor, src, group, sync_op, use_calc_stream)


def _with_peer(
    name: str, tensor: Any, peer: int, group: Group | None, sync_op: bool, use_calc_stream: bool
) -> Any:
    """A call about one tensor and one other process."""
    if _is_left_out(group, sync_op, use_calc_stream):
        return None
    if not _core.in_dynamic_mode():
        return getattr(static_ops, name)(tensor, peer, group)
    rank = group_of(group).get_group_rank(peer)
    call = getattr(_pg(group), "receive" if name == "recv" else name)
    return call(_tensor("tensor", tensor), rank, sync_op)


def _is_left_out(group: Group | None, sync_op: bool, use_calc_stream: bool) -> bool:
    """Whether a call is not this process's; one that is must make sense."""
    if is_outsider(group):
        return True
    _check_stream(sync_op, use_calc_stream)
    return False


def _pg(group: Group | None) -> Any:
    return group_of(group).process_group


def _check_stream(sync_op: bool, use_calc_stream: bool) -> None:
    if use_calc_stream and not sync_op:
        raise RuntimeError("use_calc_stream can only be true in sync op behavior.")


def _require_eager(text: str) -> None:
    if not _core.in_dynamic_mode():
        raise RuntimeError(text)


def _tensor(name: str, value: Any) -> Any:
    if isinstance(value, Tensor):
        return value
    raise TypeError(f"`{name}` must be a Tensor, not {type(value).__name__}")


def _list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"`{name}` must be a list of tensors, not {type(value).__name__}")
    for tensor in value:
        _tensor(f"{name}[...]", tensor)
    return value if isinstance(value, list) else list(value)


def _like(tensor: Any) -> Any:
    from ...tensor import zeros

    return zeros(tensor.shape, tensor.dtype)


def _equal_rows(name: str, tensor: Any, size: int) -> list[int]:
    rows = tensor.shape[0] if tensor.shape else 0
    if rows % size:
        raise ValueError(
            f"the {rows} rows of `{name}` cannot be cut into {size} equal parts: give the sizes"
        )
    return [rows // size] * size


set_public_names(__name__)
__getattr__ = missing_names(__name__)
