"""Sums, means and extremes of the rows that belong together."""

from __future__ import annotations

from ..tensor.arguments import Tensor, numpy_of, ops


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
    if how not in ("sum", "mean", "max", "min"):
        raise ValueError(f"rows are put together by sum, mean, max or min, not by {how!r}")
    if how in ("max", "min"):
        return _extremes(rows, index, how, count)
    out = _sums(rows, index, count)
    if how == "sum":
        return out
    ones = ops.fill_constant(shape=[index.shape[0]], dtype=rows.dtype, value=1.0)
    sizes = _sums(ones, index, count)
    sizes = ops.elementwise_max(sizes, ops.fill_any_like(sizes, value=1.0))
    return out / ops.reshape2(sizes, shape=[count] + [1] * (rows.ndim - 1))


def _sums(rows: Tensor, index: Tensor, count: int) -> Tensor:
    zeros = ops.fill_constant(shape=[count, *rows.shape[1:]], dtype=rows.dtype, value=0.0)
    return ops.scatter(zeros, index, rows, overwrite=False)


def _extremes(rows: Tensor, index: Tensor, how: str, count: int) -> Tensor:
    """Picks the row of each extreme, so that gradients go to the elements that won."""
    ids = numpy_of(index, f"gathering by {how}")
    parts = []
    for i in range(count):
        places = (ids == i).nonzero()[0]
        if places.size == 0:
            parts.append(ops.fill_constant(shape=list(rows.shape[1:]), dtype=rows.dtype, value=0.0))
            continue
        own = rows[places]
        reduce = ops.reduce_max if how == "max" else ops.reduce_min
        parts.append(reduce(own, dim=[0]))
    return ops.stack(parts, axis=0)
