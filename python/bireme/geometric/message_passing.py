"""Sends rows of nodes along edges, and gathers what arrives at each node."""

from __future__ import annotations

from typing import Any

from .._names import set_public_names
from ..tensor.arguments import Tensor, integer, ops
from .segment import gathered, sent

_MESSAGES = {
    "add": ops.elementwise_add,
    "sub": ops.elementwise_sub,
    "mul": ops.elementwise_mul,
    "div": ops.elementwise_div,
}


def send_u_recv(
    x: Tensor,
    src_index: Tensor,
    dst_index: Tensor,
    reduce_op: str = "sum",
    out_size: Any = None,
    name: str | None = None,
) -> Tensor:
    """Row `src_index[i]` of `x` goes to node `dst_index[i]`; `reduce_op` is sum, mean, max or min.

    The result has `out_size` rows, or as many as `x`.

    >>> x, a, b = paddle.to_tensor([[1.0], [2.0]]), paddle.to_tensor([0, 1]), paddle.to_tensor([1, 1])
    >>> paddle.geometric.send_u_recv(x, a, b).tolist()
    [[0.0], [3.0]]
    """
    return sent(
        x, src_index, dst_index, reduce_op, 0 if out_size is None else integer(out_size, "out_size")
    )


def send_ue_recv(
    x: Tensor,
    y: Tensor,
    src_index: Tensor,
    dst_index: Tensor,
    message_op: str = "add",
    reduce_op: str = "sum",
    out_size: Any = None,
    name: str | None = None,
) -> Tensor:
    """As `send_u_recv`, with a row of `y` for each edge added to (sub, mul, div) the message.

    >>> x, a, b = paddle.to_tensor([[1.0], [2.0]]), paddle.to_tensor([0, 1]), paddle.to_tensor([1, 1])
    >>> paddle.geometric.send_ue_recv(x, paddle.ones([2, 1]), a, b).tolist()
    [[0.0], [5.0]]
    """
    messages = _message(message_op)(ops.gather(x, src_index), y)
    return gathered(messages, dst_index, reduce_op, _rows(out_size, x))


def send_uv(
    x: Tensor,
    y: Tensor,
    src_index: Tensor,
    dst_index: Tensor,
    message_op: str = "add",
    name: str | None = None,
) -> Tensor:
    """A row for each edge: that of its source in `x` with that of its destination in `y`.

    >>> x, a, b = paddle.to_tensor([[1.0], [2.0]]), paddle.to_tensor([0, 1]), paddle.to_tensor([1, 1])
    >>> paddle.geometric.send_uv(x, x, a, b).tolist()
    [[3.0], [4.0]]
    """
    return _message(message_op)(ops.gather(x, src_index), ops.gather(y, dst_index))


def _message(name: str) -> Any:
    if name not in _MESSAGES:
        raise ValueError(f"`message_op` must be one of {sorted(_MESSAGES)}, but is {name!r}")
    return _MESSAGES[name]


def _rows(out_size: Any, x: Tensor) -> int:
    size = 0 if out_size is None else integer(out_size, "out_size")
    return size if size > 0 else x.shape[0]


set_public_names(__name__)
