"""Sums, means and extremes of the rows that belong together."""

from __future__ import annotations

from .._names import set_public_names
from ..tensor.arguments import Tensor, constant, numpy_of, ops, require_tensor


def segment_sum(data: Tensor, segment_ids: Tensor, name: str | None = None) -> Tensor:
    """The sum of the rows of each segment.

    >>> x, ids = paddle.to_tensor([[1.0], [2.0], [4.0]]), paddle.to_tensor([0, 0, 1])
    >>> paddle.geometric.segment_sum(x, ids).tolist()
    [[3.0], [4.0]]
    """
    return gathered(data, segment_ids, "sum", _segments(segment_ids))


def segment_mean(data: Tensor, segment_ids: Tensor, name: str | None = None) -> Tensor:
    """The mean of the rows of each segment.

    >>> x, ids = paddle.to_tensor([[1.0], [2.0], [4.0]]), paddle.to_tensor([0, 0, 1])
    >>> paddle.geometric.segment_mean(x, ids).tolist()
    [[1.5], [4.0]]
    """
    return gathered(data, segment_ids, "mean", _segments(segment_ids))


def segment_max(data: Tensor, segment_ids: Tensor, name: str | None = None) -> Tensor:
    """The greatest elements of the rows of each segment.

    >>> x, ids = paddle.to_tensor([[1.0], [2.0], [4.0]]), paddle.to_tensor([0, 0, 1])
    >>> paddle.geometric.segment_max(x, ids).tolist()
    [[2.0], [4.0]]
    """
    return gathered(data, segment_ids, "max", _segments(segment_ids))


def segment_min(data: Tensor, segment_ids: Tensor, name: str | None = None) -> Tensor:
    """The smallest elements of the rows of each segment.

    >>> x, ids = paddle.to_tensor([[1.0], [2.0], [4.0]]), paddle.to_tensor([0, 0, 1])
    >>> paddle.geometric.segment_min(x, ids).tolist()
    [[1.0], [4.0]]
    """
    return gathered(data, segment_ids, "min", _segments(segment_ids))


def _segments(segment_ids: Tensor) -> int:
    ids = numpy_of(segment_ids, "segment functions")
    return int(ids.max()) + 1 if ids.size else 0


def gathered(rows: Tensor, index: Tensor, how: str, count: int) -> Tensor:
    """`count` rows: row i from the rows whose index is i, and zeros where there are none."""
    require_tensor(rows, "rows")
    places = ops.range(*(constant(n, "int64", rows) for n in (0, rows.shape[0], 1)))
    return sent(rows, places, index, how, count)


def sent(x: Tensor, source: Tensor, target: Tensor, how: str, count: int) -> Tensor:
    """Row `source[i]` of `x` to row `target[i]` of the result; 0 for as many rows as `x` has."""
    if how not in ("sum", "mean", "max", "min"):
        raise ValueError(f"rows are put together by sum, mean, max or min, not by {how!r}")
    return ops.graph_send_recv(x, source, target, reduce_op=how.upper(), out_size=[count])


set_public_names(__name__, but="gathered sent")
