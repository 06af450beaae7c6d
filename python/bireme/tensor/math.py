"""Arithmetic, reductions and what is made of them."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from .. import _core
from .._names import set_public_names
from .arguments import (
    TENSORS,
    Tensor,
    as_tensor,
    integer,
    is_float,
    known_size,
    matched_shape,
    normal_axis,
    ops,
    real,
    reduce_dims,
    require_tensor,
    sequence_of,
)


def add(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """The sum of two tensors, shapes matched as numpy does.

    >>> paddle.add(paddle.to_tensor([1.0, 2.0]), paddle.to_tensor([3.0, 4.0])).tolist()
    [4.0, 6.0]
    """
    return ops.elementwise_add(x, y)


def subtract(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """The difference of two tensors.

    >>> paddle.subtract(paddle.to_tensor([5.0]), paddle.to_tensor([3.0])).tolist()
    [2.0]
    """
    return ops.elementwise_sub(x, y)


def multiply(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """The product of two tensors, element by element.

    >>> paddle.multiply(paddle.to_tensor([5.0]), paddle.to_tensor([3.0])).tolist()
    [15.0]
    """
    return ops.elementwise_mul(x, y)


def divide(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """The quotient of two tensors, element by element.

    >>> paddle.divide(paddle.to_tensor([6.0]), paddle.to_tensor([3.0])).tolist()
    [2.0]
    """
    return ops.elementwise_div(x, y)


def floor_divide(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """The quotient of two tensors, rounded down.

    >>> paddle.floor_divide(paddle.to_tensor([7]), paddle.to_tensor([2])).tolist()
    [3]
    """
    return ops.elementwise_floordiv(x, y)


def remainder(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """What is left of a division, with the sign of the divisor.

    >>> paddle.remainder(paddle.to_tensor([7]), paddle.to_tensor([4])).tolist()
    [3]
    """
    return ops.elementwise_mod(x, y)


def maximum(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """The greater of two elements.

    >>> paddle.maximum(paddle.to_tensor([1.0, 5.0]), paddle.to_tensor([3.0, 4.0])).tolist()
    [3.0, 5.0]
    """
    return ops.elementwise_max(x, y)


def minimum(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """The smaller of two elements.

    >>> paddle.minimum(paddle.to_tensor([1.0, 5.0]), paddle.to_tensor([3.0, 4.0])).tolist()
    [1.0, 4.0]
    """
    return ops.elementwise_min(x, y)


def fmax(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """The greater of two elements, or the one that is a number.

    >>> paddle.fmax(paddle.to_tensor([float("nan")]), paddle.to_tensor([4.0])).tolist()
    [4.0]
    """
    return _ignoring_nan(ops.elementwise_max, x, y)


def fmin(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """The smaller of two elements, or the one that is a number.

    >>> paddle.fmin(paddle.to_tensor([float("nan")]), paddle.to_tensor([4.0])).tolist()
    [4.0]
    """
    return _ignoring_nan(ops.elementwise_min, x, y)


def pow(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """`x` to the power of a number or a tensor.

    >>> paddle.pow(paddle.to_tensor([3.0]), 2).tolist()
    [9.0]
    """
    if isinstance(y, TENSORS):
        return ops.elementwise_pow(x, y)
    return ops.pow(x, factor=real(y, "y"))


def scale(
    x: Tensor,
    scale: Any = 1.0,
    bias: float = 0.0,
    bias_after_scale: bool = True,
    act: Any = None,
    name: str | None = None,
) -> Any:
    """`scale * x + bias`, or `scale * (x + bias)`.

    >>> paddle.scale(paddle.to_tensor([3.0]), 2.0, 1.0).tolist()
    [7.0]
    """
    tensor = scale if isinstance(scale, TENSORS) else None
    factor = 1.0 if tensor is not None else real(scale, "scale")
    out = ops.scale(
        x, tensor, scale=factor, bias=real(bias, "bias"), bias_after_scale=bias_after_scale
    )
    return getattr(ops, act)(out) if act else out


def increment(x: Tensor, value: float = 1.0, name: str | None = None) -> Any:
    """Adds a number to a tensor of one element, in place.

    >>> paddle.increment(paddle.to_tensor([3.0])).tolist()
    [4.0]
    """
    if isinstance(x, _core.Variable):
        return ops.increment(x, step=real(value, "value"), _into={"Out": x}) or x
    x._share(ops.scale(x, bias=real(value, "value")))
    return x


def add_n(inputs: Any, name: str | None = None) -> Any:
    """The sum of all tensors of a list.

    >>> paddle.add_n([paddle.ones([2]), paddle.ones([2])]).tolist()
    [2.0, 2.0]
    """
    return ops.sum(list(sequence_of(inputs, "add_n")))


def sum(
    x: Tensor, axis: Any = None, dtype: Any = None, keepdim: bool = False, name: str | None = None
) -> Any:
    """The sum over some axes, or over all; integers are summed as int64.

    >>> paddle.sum(paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]]), axis=0).tolist()
    [4.0, 6.0]
    """
    require_tensor(x, "x")
    if dtype is not None:
        x = _cast(x, dtype)
    elif x.dtype.name in _SHORT:
        x = _cast(x, "int64")
    return ops.reduce_sum(x, keep_dim=keepdim, **reduce_dims(x, axis))


def nansum(
    x: Tensor, axis: Any = None, dtype: Any = None, keepdim: bool = False, name: str | None = None
) -> Any:
    """The sum of the elements that are numbers.

    >>> paddle.nansum(paddle.to_tensor([1.0, float("nan")])).item()
    1.0
    """
    return sum(_without_nan(x), axis, dtype, keepdim)


def prod(
    x: Tensor, axis: Any = None, keepdim: bool = False, dtype: Any = None, name: str | None = None
) -> Any:
    """The product over some axes, or over all.

    >>> paddle.prod(paddle.to_tensor([2.0, 3.0])).item()
    6.0
    """
    x = x if dtype is None else _cast(x, dtype)
    return ops.reduce_prod(x, keep_dim=keepdim, **reduce_dims(x, axis))


def max(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Any:
    """The greatest element over some axes, or over all.

    >>> paddle.max(paddle.to_tensor([[1.0, 5.0], [3.0, 4.0]]), axis=1).tolist()
    [5.0, 4.0]
    """
    return ops.reduce_max(x, keep_dim=keepdim, **reduce_dims(x, axis))


def min(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Any:
    """The smallest element over some axes, or over all.

    >>> paddle.min(paddle.to_tensor([[1.0, 5.0], [3.0, 4.0]]), axis=1).tolist()
    [1.0, 3.0]
    """
    return ops.reduce_min(x, keep_dim=keepdim, **reduce_dims(x, axis))


def all(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Any:
    """Whether all elements are true, over some axes or over all.

    >>> paddle.all(paddle.to_tensor([True, False])).item()
    False
    """
    return ops.reduce_all(x, keep_dim=keepdim, **reduce_dims(x, axis))


def any(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Any:
    """Whether any element is true, over some axes or over all.

    >>> paddle.any(paddle.to_tensor([True, False])).item()
    True
    """
    return ops.reduce_any(x, keep_dim=keepdim, **reduce_dims(x, axis))


def count_nonzero(
    x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None
) -> Any:
    """How many elements are not 0, over some axes or over all.

    >>> paddle.count_nonzero(paddle.to_tensor([1.0, 0.0])).item()
    1
    """
    return sum(_cast(x, "bool"), axis, None, keepdim)


def logsumexp(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Any:
    """log(sum(exp(x))) over some axes or over all, without overflow.

    >>> paddle.logsumexp(paddle.to_tensor([0.0])).item()
    0.0
    """
    dims = reduce_dims(x, axis)
    return ops.logsumexp(x, axis=dims["dim"] or [0], keepdim=keepdim, reduce_all=dims["reduce_all"])


def cumsum(x: Tensor, axis: Any = None, dtype: Any = None, name: str | None = None) -> Any:
    """Running sums along an axis, or over the flattened tensor.

    >>> paddle.cumsum(paddle.to_tensor([1.0, 2.0, 3.0])).tolist()
    [1.0, 3.0, 6.0]
    """
    x = x if dtype is None else _cast(x, dtype)
    return ops.cumsum(x, axis=-1 if axis is None else integer(axis, "axis"), flatten=axis is None)


def clip(x: Tensor, min: Any = None, max: Any = None, name: str | None = None) -> Any:
    """Each element limited to [min, max]; either may be a number, a tensor or None.

    >>> paddle.clip(paddle.to_tensor([1.0, 5.0]), max=2.0).tolist()
    [1.0, 2.0]
    """
    low, high = _limits(x, min, max)
    tensors = [v if isinstance(v, TENSORS) else None for v in (low, high)]
    low, high = (0.0 if isinstance(v, TENSORS) else float(v) for v in (low, high))
    return ops.clip(x, *tensors, min=low, max=high)


def lerp(x: Tensor, y: Tensor, weight: Any, name: str | None = None) -> Any:
    """`x + weight * (y - x)`.

    >>> paddle.lerp(paddle.zeros([1]), paddle.ones([1]), 0.5).tolist()
    [0.5]
    """
    require_tensor(x, "x")
    require_tensor(y, "y")
    return x + (y - x) * weight


def addmm(
    input: Tensor,
    x: Tensor,
    y: Tensor,
    beta: float = 1.0,
    alpha: float = 1.0,
    name: str | None = None,
) -> Any:
    """`beta * input + alpha * x @ y`.

    >>> paddle.addmm(paddle.ones([1, 1]), paddle.ones([1, 2]), paddle.ones([2, 1])).tolist()
    [[3.0]]
    """
    require_tensor(input, "input")
    return input * beta + ops.matmul_v2(x, y) * alpha


def inner(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """Sums of products over the last axes of both.

    >>> paddle.inner(paddle.to_tensor([[1.0, 2.0]]), paddle.to_tensor([[3.0, 4.0]])).tolist()
    [[11.0]]
    """
    require_tensor(x, "x")
    if x.ndim == 0 or y.ndim == 0:
        return ops.elementwise_mul(x, y)
    if x.ndim <= 2 and y.ndim <= 2:
        return ops.matmul_v2(x, y, trans_y=y.ndim == 2)
    flat = [ops.reshape2(v, shape=[-1, v.shape[-1]]) for v in (x, y)]
    out = ops.matmul_v2(*flat, trans_y=True)
    return ops.reshape2(out, shape=[*x.shape[:-1], *y.shape[:-1]])


def outer(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """Products of all elements of one with all of the other.

    >>> paddle.outer(paddle.to_tensor([1.0, 2.0]), paddle.to_tensor([3.0, 4.0])).tolist()
    [[3.0, 4.0], [6.0, 8.0]]
    """
    return ops.elementwise_mul(ops.reshape2(x, shape=[-1, 1]), ops.reshape2(y, shape=[1, -1]))


def kron(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """The Kronecker product: `y` times each element of `x`, put together.

    >>> paddle.kron(paddle.to_tensor([1.0, 2.0]), paddle.ones([2])).tolist()
    [1.0, 1.0, 2.0, 2.0]
    """
    require_tensor(x, "x")
    for v in (x, y):
        for axis in range(v.ndim):
            known_size(v, axis, "kron")
    ndim = builtins.max(x.ndim, y.ndim)
    a, b = ([1] * (ndim - v.ndim) + list(v.shape) for v in (x, y))
    left = ops.reshape2(x, shape=[s for size in a for s in (size, 1)])
    right = ops.reshape2(y, shape=[s for size in b for s in (1, size)])
    return ops.reshape2(left * right, shape=[i * j for i, j in zip(a, b)])


def trace(
    x: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1, name: str | None = None
) -> Any:
    """The sum of the diagonal of two axes.

    >>> paddle.trace(paddle.eye(3)).item()
    3.0
    """
    return sum(diagonal(x, offset, axis1, axis2), axis=-1)


def diagonal(
    x: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1, name: str | None = None
) -> Any:
    """The diagonal of two axes, as the last axis.

    >>> paddle.diagonal(paddle.eye(2)).tolist()
    [1.0, 1.0]
    """
    require_tensor(x, "x")
    axis1, axis2 = normal_axis(axis1, x.ndim), normal_axis(axis2, x.ndim)
    rest = [i for i in range(x.ndim) if i not in (axis1, axis2)]
    moved = ops.transpose2(x, axis=[axis1, axis2, *rest])
    rows, columns = (known_size(moved, i, "diagonal") for i in range(2))
    count = builtins.max(
        builtins.min(rows + builtins.min(offset, 0), columns - builtins.max(offset, 0)), 0
    )
    first = builtins.max(offset, 0) - builtins.min(offset, 0) * columns
    places = [first + i * (columns + 1) for i in range(count)]
    flat = ops.reshape2(moved, shape=[rows * columns, *moved.shape[2:]])
    picked = ops.index_select(flat, as_tensor(places, dtype="int64"), dim=0)
    return ops.transpose2(picked, axis=[*range(1, picked.ndim), 0])


def diff(
    x: Tensor,
    n: int = 1,
    axis: Any = -1,
    prepend: Any = None,
    append: Any = None,
    name: str | None = None,
) -> Any:
    """The differences of neighbours along an axis, `n` times over.

    >>> paddle.diff(paddle.to_tensor([1, 4, 9])).tolist()
    [3, 5]
    """
    require_tensor(x, "x")
    axis = normal_axis(axis, x.ndim)
    parts = [v for v in (prepend, x, append) if v is not None]
    x = parts[0] if len(parts) == 1 else ops.concat(parts, axis=axis)
    for _ in range(n):
        after = ops.slice(x, axes=[axis], starts=[1], ends=[2**31 - 1])
        x = after - ops.slice(x, axes=[axis], starts=[0], ends=[-1])
    return x


def nan_to_num(
    x: Tensor, nan: float = 0.0, posinf: Any = None, neginf: Any = None, name: str | None = None
) -> Any:
    """Numbers in place of NaN and infinities.

    >>> paddle.nan_to_num(paddle.to_tensor([float("nan"), 1.0])).tolist()
    [0.0, 1.0]
    """
    require_tensor(x, "x")
    limits = np.finfo(x.dtype.name)
    top = float(limits.max if posinf is None else posinf)
    bottom = float(limits.min if neginf is None else neginf)
    x = ops.where(ops.isnan_v2(x), ops.fill_any_like(x, value=real(nan, "nan")), x)
    infinite = ops.isinf_v2(x)
    x = ops.where(_both(infinite, x > 0), ops.fill_any_like(x, value=top), x)
    return ops.where(_both(infinite, x < 0), ops.fill_any_like(x, value=bottom), x)


def logaddexp(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """log(exp(x) + exp(y)), without overflow.

    >>> round(paddle.logaddexp(paddle.zeros([1]), paddle.zeros([1])).item(), 4)
    0.6931
    """
    return ops.elementwise_max(x, y) + ops.log1p(ops.exp(-ops.abs(x - y)))


def heaviside(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """0 under 0, 1 over 0, and `y` at 0.

    >>> paddle.heaviside(paddle.to_tensor([-1.0, 0.0]), paddle.to_tensor([0.5])).tolist()
    [0.0, 0.5]
    """
    require_tensor(x, "x")
    return ops.cast(x > 0, in_dtype="bool", out_dtype=x.dtype) + y * (x == 0).astype(x.dtype)


def hypot(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """The length of the long side of a right-angled triangle.

    >>> paddle.hypot(paddle.to_tensor([3.0]), paddle.to_tensor([4.0])).tolist()
    [5.0]
    """
    return ops.sqrt(ops.square(x) + ops.square(y))


def broadcast_shape(x_shape: Any, y_shape: Any) -> Any:
    """The shape that two shapes are matched to.

    >>> paddle.broadcast_shape([2, 1, 3], [4, 1])
    [2, 4, 3]
    """
    return matched_shape(x_shape, y_shape)


def multiplex(inputs: Any, index: Any, name: str | None = None) -> Any:
    """Row i of the tensor that `index[i]` names.

    >>> paddle.multiplex([paddle.zeros([2, 1]), paddle.ones([2, 1])], paddle.to_tensor([[1], [0]])).tolist()
    [[1.0], [0.0]]
    """
    rows = ops.stack(list(inputs), axis=1)
    chosen = _cast(ops.reshape2(index, shape=[-1, 1]), "int64")
    mask = ops.one_hot_v2(ops.reshape2(chosen, shape=[-1]), depth=len(inputs))
    mask = ops.reshape2(_cast(mask, rows.dtype), shape=[-1, len(inputs)] + [1] * (rows.ndim - 2))
    return ops.reduce_sum(rows * mask, dim=[1])


def _cast(x: Tensor, dtype: Any) -> Tensor:
    require_tensor(x, "x")
    return x if x.dtype == dtype else ops.cast(x, in_dtype=x.dtype, out_dtype=dtype)


def _both(a: Tensor, b: Tensor) -> Tensor:
    return ops.logical_and(a, b)


def _without_nan(x: Tensor) -> Tensor:
    return ops.where(ops.isnan_v2(x), ops.fill_any_like(x, value=0.0), x)


def _ignoring_nan(op: Any, x: Tensor, y: Tensor) -> Tensor:
    zero = op(ops.fill_any_like(x, value=0.0), ops.fill_any_like(y, value=0.0))
    x, y = x + zero, y + zero
    return ops.where(ops.isnan_v2(x), y, ops.where(ops.isnan_v2(y), x, op(x, y)))


def _limits(x: Tensor, low: Any, high: Any) -> tuple[Any, Any]:
    """The limits of `clip`, with the widest of the element type for those left out."""
    info = np.finfo("float32") if is_float(x) else np.iinfo("int32")
    return (info.min if low is None else low), (info.max if high is None else high)


#: Element types that sums are not kept in.
_SHORT = frozenset(("bool", "int32", "int16", "int8", "uint8"))

mod = remainder
floor_mod = remainder
amax = max
amin = min


set_public_names(__name__)
