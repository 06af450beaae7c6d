"""Statistics."""

from __future__ import annotations

import math
from typing import Any

from .arguments import Tensor, constant, known_size, ops, reduce_dims, require_tensor

__all__ = ["mean", "median", "nanmean", "numel", "quantile", "std", "var"]


def mean(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Any:
    """The mean over some axes, or over all.

    >>> paddle.mean(paddle.to_tensor([1.0, 3.0])).item()
    2.0
    """
    return ops.reduce_mean(x, keep_dim=keepdim, **reduce_dims(x, axis))


def nanmean(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Any:
    """The mean of the elements that are numbers.

    >>> paddle.nanmean(paddle.to_tensor([1.0, float("nan")])).item()
    1.0
    """
    valid = ops.cast(ops.logical_not(ops.isnan_v2(x)), in_dtype="bool", out_dtype=x.dtype)
    x = ops.where(ops.isnan_v2(x), ops.fill_any_like(x, value=0.0), x)
    dims = reduce_dims(x, axis)
    return ops.reduce_sum(x, keep_dim=keepdim, **dims) / ops.reduce_sum(
        valid, keep_dim=keepdim, **dims
    )


def var(
    x: Tensor,
    axis: Any = None,
    unbiased: bool = True,
    keepdim: bool = False,
    name: str | None = None,
) -> Any:
    """The variance over some axes, or over all.

    >>> paddle.var(paddle.to_tensor([1.0, 3.0])).item()
    2.0
    """
    dims = reduce_dims(x, axis)
    centred = ops.square(x - ops.reduce_mean(x, keep_dim=True, **dims))
    if not unbiased:
        return ops.reduce_mean(centred, keep_dim=keepdim, **dims)
    total = ops.reduce_sum(centred, keep_dim=keepdim, **dims)
    sizes = [x.shape[a] for a in (range(x.ndim) if dims["reduce_all"] else dims["dim"])]
    if -1 in sizes:
        count = ops.reduce_sum(ops.fill_any_like(x, value=1.0), keep_dim=keepdim, **dims)
        return total / ops.scale(count, bias=-1.0)
    count = math.prod(sizes)
    return ops.scale(total, scale=1.0 / (count - 1) if count > 1 else float("nan"))


def std(
    x: Tensor,
    axis: Any = None,
    unbiased: bool = True,
    keepdim: bool = False,
    name: str | None = None,
) -> Any:
    """The standard deviation over some axes, or over all.

    >>> paddle.std(paddle.to_tensor([1.0, 1.0])).item()
    0.0
    """
    return ops.sqrt(var(x, axis, unbiased, keepdim))


def numel(x: Tensor, name: str | None = None) -> Any:
    """How many elements a tensor has, as a tensor.

    >>> paddle.numel(paddle.ones([2, 3])).item()
    6
    """
    require_tensor(x, "x")
    if -1 not in list(x.shape):
        return constant(math.prod(x.shape), "int64", x)
    return ops.reduce_prod(
        ops.cast(ops.shape(x), in_dtype="int32", out_dtype="int64"), reduce_all=True, dim=[]
    )


def median(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Any:
    """The middle element along an axis or of all; the mean of two if there is no one middle.

    >>> paddle.median(paddle.to_tensor([3.0, 1.0, 2.0])).item()
    2.0
    """
    return _quantile(x, 0.5, axis, keepdim)


def quantile(x: Tensor, q: Any, axis: Any = None, keepdim: bool = False) -> Any:
    """What a share `q` of the elements does not exceed, between neighbours in proportion.

    As in Paddle, the result is float64.

    >>> paddle.quantile(paddle.to_tensor([1.0, 2.0]), 0.5).item()
    1.5
    """
    require_tensor(x, "x")
    x = ops.cast(x, in_dtype=x.dtype, out_dtype="float64")
    if isinstance(q, (list, tuple)):
        return ops.stack([_quantile(x, share, axis, keepdim) for share in q])
    return _quantile(x, q, axis, keepdim)


def _quantile(x: Tensor, q: float, axis: int | None, keepdim: bool) -> Any:
    require_tensor(x, "x")
    if not 0 <= q <= 1:
        raise ValueError(f"`q` must be in [0, 1], but is {q}")
    ndim = x.ndim
    if axis is None:
        x, axis = ops.reshape2(x, shape=[-1]), 0
    else:
        ndim = 0
    place = q * (known_size(x, axis, "quantile") - 1)
    values = ops.argsort(x, axis=axis)[0]
    low, high = (
        ops.slice(values, axes=[axis], starts=[int(p)], ends=[int(p) + 1])
        for p in (math.floor(place), math.ceil(place))
    )
    out = low + (high - low) * (place - math.floor(place))
    if not keepdim:
        return ops.squeeze2(out, axes=[axis])
    return ops.reshape2(out, shape=[1] * ndim) if ndim else out
