"""Finding, sorting and choosing elements."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from .._names import set_public_names
from .arguments import (
    TENSORS,
    Tensor,
    Variable,
    as_tensor,
    dtype_name,
    integer,
    known_size,
    matched_shape,
    normal_axis,
    numpy_of,
    ops,
    require_tensor,
)


def argmax(
    x: Tensor,
    axis: Any = None,
    keepdim: bool = False,
    dtype: Any = "int64",
    name: str | None = None,
) -> Any:
    """Where the greatest element is, along an axis or of all.

    >>> paddle.argmax(paddle.to_tensor([1.0, 3.0, 2.0])).item()
    1
    """
    return ops.arg_max(
        x,
        axis=0 if axis is None else integer(axis, "axis"),
        keepdims=keepdim,
        flatten=axis is None,
        dtype=dtype,
    )


def argmin(
    x: Tensor,
    axis: Any = None,
    keepdim: bool = False,
    dtype: Any = "int64",
    name: str | None = None,
) -> Any:
    """Where the smallest element is, along an axis or of all.

    >>> paddle.argmin(paddle.to_tensor([1.0, 3.0, 2.0])).item()
    0
    """
    return ops.arg_min(
        x,
        axis=0 if axis is None else integer(axis, "axis"),
        keepdims=keepdim,
        flatten=axis is None,
        dtype=dtype,
    )


def argsort(x: Tensor, axis: Any = -1, descending: bool = False, name: str | None = None) -> Any:
    """The places of the elements in sorted order.

    >>> paddle.argsort(paddle.to_tensor([3.0, 1.0])).tolist()
    [1, 0]
    """
    return ops.argsort(x, axis=axis, descending=descending)[1]


def sort(x: Tensor, axis: Any = -1, descending: bool = False, name: str | None = None) -> Any:
    """The elements in sorted order.

    >>> paddle.sort(paddle.to_tensor([3.0, 1.0])).tolist()
    [1.0, 3.0]
    """
    return ops.argsort(x, axis=axis, descending=descending)[0]


def topk(
    x: Tensor,
    k: Any,
    axis: Any = None,
    largest: bool = True,
    sorted: bool = True,
    name: str | None = None,
) -> Any:
    """The `k` greatest (or smallest) elements along an axis, and their places.

    >>> [t.tolist() for t in paddle.topk(paddle.to_tensor([1.0, 3.0, 2.0]), 2)]
    [[3.0, 2.0], [1, 2]]
    """
    axis = -1 if axis is None else axis
    if isinstance(k, Variable):
        return ops.top_k_v2(x, k, axis=axis, largest=largest, sorted=sorted)
    return ops.top_k_v2(x, k=integer(k, "k"), axis=axis, largest=largest, sorted=sorted)


def kthvalue(
    x: Tensor, k: int, axis: Any = None, keepdim: bool = False, name: str | None = None
) -> Any:
    """The `k`-th smallest element along an axis, and its place.

    >>> [t.item() for t in paddle.kthvalue(paddle.to_tensor([1.0, 3.0, 2.0]), 2)]
    [2.0, 2]
    """
    require_tensor(x, "x")
    axis = normal_axis(-1 if axis is None else axis, x.ndim)
    parts = ops.argsort(x, axis=axis)
    parts = [ops.slice(p, axes=[axis], starts=[k - 1], ends=[k]) for p in parts]
    return tuple(parts if keepdim else (ops.squeeze2(p, axes=[axis]) for p in parts))


def where(
    condition: Any, x: Tensor | None = None, y: Tensor | None = None, name: str | None = None
) -> Any:
    """`x` where the condition holds, else `y`; without both, the places where it holds.

    >>> paddle.where(paddle.to_tensor([True, False]), paddle.ones([2]), paddle.zeros([2])).tolist()
    [1.0, 0.0]
    """
    if x is None and y is None:
        return nonzero(condition, as_tuple=True)
    if x is None or y is None:
        raise ValueError("`where` needs both `x` and `y`, or none of them")
    x, y = (
        as_tensor(x, y if isinstance(y, TENSORS) else condition),
        as_tensor(y, x if isinstance(x, TENSORS) else condition),
    )
    if not list(condition.shape) == list(x.shape) == list(y.shape):
        condition, x, y = _matched(condition, x, y)
    return ops.where(condition, x, y)


def nonzero(x: Tensor, as_tuple: bool = False) -> Any:
    """The places of the elements that are not 0: a row each, or a column for each axis.

    >>> paddle.nonzero(paddle.to_tensor([0.0, 2.0])).tolist()
    [[1]]
    """
    places = ops.where_index(x)
    if not as_tuple:
        return places
    return tuple(ops.slice(places, axes=[1], starts=[i], ends=[i + 1]) for i in range(x.ndim))


def masked_select(x: Tensor, mask: Tensor, name: str | None = None) -> Any:
    """The elements where the mask holds, as one axis.

    >>> paddle.masked_select(paddle.to_tensor([1.0, 2.0]), paddle.to_tensor([False, True])).tolist()
    [2.0]
    """
    require_tensor(x, "x")
    if list(x.shape) != list(mask.shape):
        x, mask = _same_shape(x, mask)
    return ops.masked_select(x, mask)


def index_select(x: Tensor, index: Tensor, axis: Any = 0, name: str | None = None) -> Any:
    """The slices of `x` that `index` names along an axis.

    >>> paddle.index_select(paddle.to_tensor([[1, 2], [3, 4]]), paddle.to_tensor([1]), axis=1).tolist()
    [[2], [4]]
    """
    return ops.index_select(x, index, dim=axis)


def index_sample(x: Tensor, index: Tensor) -> Any:
    """Of each row of `x` the elements that the row of `index` names.

    >>> paddle.index_sample(paddle.to_tensor([[1, 2], [3, 4]]), paddle.to_tensor([[1], [0]])).tolist()
    [[2], [3]]
    """
    return ops.index_sample(x, index)


def masked_fill(x: Tensor, mask: Tensor, value: Any, name: str | None = None) -> Any:
    """A number in place of the elements where the mask holds.

    >>> paddle.masked_fill(paddle.ones([2]), paddle.to_tensor([False, True]), 5.0).tolist()
    [1.0, 5.0]
    """
    return where(mask, as_tensor(value, x), x)


def unique(
    x: Tensor,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    dtype: Any = "int64",
    name: str | None = None,
) -> Any:
    """The different elements in order; on request where they are, and how often.

    >>> paddle.unique(paddle.to_tensor([2, 1, 2])).tolist()
    [1, 2]
    """
    wanted = {
        "Out": True,
        "Indices": return_index,
        "Index": return_inverse,
        "Counts": return_counts,
    }
    outputs = tuple(slot for slot, want in wanted.items() if want)
    return ops.unique(
        x,
        return_index=return_index,
        return_inverse=return_inverse,
        return_counts=return_counts,
        axis=[] if axis is None else [axis],
        dtype=dtype,
        is_sorted=True,
        _outputs=outputs,
    )


def unique_consecutive(
    x: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    dtype: Any = "int64",
    name: str | None = None,
) -> Any:
    """The elements without repetitions of the one before.

    >>> paddle.unique_consecutive(paddle.to_tensor([1, 1, 2, 1])).tolist()
    [1, 2, 1]
    """
    if axis is not None:
        raise NotImplementedError(
            "`unique_consecutive` works on the flattened tensor: leave `axis` out"
        )
    values = numpy_of(x, "unique_consecutive").ravel()
    new = np.concatenate([[True], values[1:] != values[:-1]]) if values.size else np.zeros(0, bool)
    inverse = np.cumsum(new) - 1
    results = [values[new]] + [inverse.astype(dtype_name(dtype))] * return_inverse
    results += [np.bincount(inverse).astype(dtype_name(dtype))] * return_counts
    tensors = [as_tensor(r) for r in results]
    return tensors[0] if len(tensors) == 1 else tuple(tensors)


def take(x: Tensor, index: Tensor, mode: str = "raise", name: str | None = None) -> Any:
    """Elements of the flattened tensor; indices out of range are refused, wrapped or clipped.

    >>> paddle.take(paddle.to_tensor([[1, 2], [3, 4]]), paddle.to_tensor([[3, 0]])).tolist()
    [[4, 1]]
    """
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"`mode` must be raise, wrap or clip, but is {mode!r}")
    flat = ops.reshape2(x, shape=[-1])
    size = known_size(flat, 0, "take")
    if mode == "clip":
        index = ops.clip(index, min=0.0, max=float(size - 1))
    elif mode == "wrap" or not isinstance(index, Variable):
        _check_range(index, size, mode)
        index = ops.elementwise_mod(index, as_tensor(size, index))
    return ops.reshape2(ops.gather(flat, ops.reshape2(index, shape=[-1])), shape=list(index.shape))


def _check_range(index: Tensor, size: int, mode: str) -> None:
    if mode == "raise" and ((values := index.numpy()) < -size).any() | (values >= size).any():
        raise ValueError(f"an index of `take` is out of range for {size} elements")


def searchsorted(
    sorted_sequence: Tensor,
    values: Tensor,
    out_int32: bool = False,
    right: bool = False,
    name: str | None = None,
) -> Any:
    """Where each value would be put into a sorted sequence.

    >>> paddle.searchsorted(paddle.to_tensor([1, 3]), paddle.to_tensor([2])).tolist()
    [1]
    """
    lines, wanted = (numpy_of(v, "searchsorted") for v in (sorted_sequence, values))
    side: Literal["left", "right"] = "right" if right else "left"
    if lines.ndim == 1:
        places = np.searchsorted(lines, wanted, side)
    else:
        pairs = zip(lines.reshape(-1, lines.shape[-1]), wanted.reshape(-1, wanted.shape[-1]))
        places = np.stack([np.searchsorted(a, v, side) for a, v in pairs]).reshape(wanted.shape)
    return as_tensor(places.astype("int32" if out_int32 else "int64"))


def bucketize(
    x: Tensor,
    sorted_sequence: Tensor,
    out_int32: bool = False,
    right: bool = False,
    name: str | None = None,
) -> Any:
    """Between which numbers of a sorted sequence each element lies.

    >>> paddle.bucketize(paddle.to_tensor([2]), paddle.to_tensor([1, 3])).tolist()
    [1]
    """
    return searchsorted(sorted_sequence, x, out_int32, right)


def _matched(condition: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """All three in the shape that fits them, found by adding zeros: sizes may be unknown yet."""
    truth = ops.cast(condition, in_dtype="bool", out_dtype=x.dtype)
    zero = ops.fill_any_like(x, value=0.0) + ops.fill_any_like(y, value=0.0)
    zero = zero + ops.fill_any_like(truth, value=0.0)
    return ops.cast(truth + zero, in_dtype=x.dtype, out_dtype="bool"), x + zero, y + zero


def _same_shape(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    shape = matched_shape(x.shape, mask.shape)
    return ops.expand_v2(x, shape=shape), ops.expand_v2(mask, shape=shape)


set_public_names(__name__)
