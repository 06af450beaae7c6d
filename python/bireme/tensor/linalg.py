"""Products and norms of vectors and matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._names import set_public_names
from .arguments import (
    Tensor,
    as_tensor,
    int_list,
    integer,
    normal_axis,
    numpy_of,
    ops,
    real,
    require_tensor,
)


def matmul(
    x: Tensor,
    y: Tensor,
    transpose_x: bool = False,
    transpose_y: bool = False,
    name: str | None = None,
) -> Any:
    """The matrix product of the last two axes; the others are matched.

    >>> paddle.matmul(paddle.to_tensor([[1.0, 2.0]]), paddle.to_tensor([[3.0], [4.0]])).tolist()
    [[11.0]]
    """
    return ops.matmul_v2(x, y, trans_x=transpose_x, trans_y=transpose_y)


def mm(input: Tensor, mat2: Tensor, name: str | None = None) -> Any:
    """The matrix product.

    >>> paddle.mm(paddle.to_tensor([[1.0, 2.0]]), paddle.to_tensor([[3.0], [4.0]])).tolist()
    [[11.0]]
    """
    return ops.matmul_v2(input, mat2)


def bmm(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """The matrix products of a batch of pairs.

    >>> paddle.bmm(paddle.ones([2, 1, 3]), paddle.ones([2, 3, 1])).tolist()
    [[[3.0]], [[3.0]]]
    """
    return ops.bmm(x, y)


def mv(x: Tensor, vec: Tensor, name: str | None = None) -> Any:
    """A matrix times a vector.

    >>> paddle.mv(paddle.ones([2, 3]), paddle.ones([3])).tolist()
    [3.0, 3.0]
    """
    return ops.matmul_v2(x, vec)


def dot(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """The sum of products over the last axis.

    >>> paddle.dot(paddle.ones([3]), paddle.ones([3])).item()
    3.0
    """
    require_tensor(x, "x")
    if x.ndim == 1:
        return ops.reduce_sum(ops.elementwise_mul(x, y), reduce_all=True, dim=[])
    return ops.reduce_sum(ops.elementwise_mul(x, y), dim=[-1])


def t(input: Tensor, name: str | None = None) -> Any:
    """The transpose of a matrix; a vector as it is.

    >>> paddle.t(paddle.arange(6).reshape([2, 3])).tolist()
    [[0, 3], [1, 4], [2, 5]]
    """
    require_tensor(input, "input")
    if input.ndim > 2:
        raise ValueError(
            f"`t` takes two axes or fewer, but the input has {input.ndim}: use `transpose`"
        )
    return ops.transpose2(input, axis=[1, 0]) if input.ndim == 2 else input


def norm(
    x: Tensor, p: Any = "fro", axis: Any = None, keepdim: bool = False, name: str | None = None
) -> Any:
    """The length of vectors or matrices: `p` is fro, a number, inf or -inf.

    >>> paddle.norm(paddle.to_tensor([3.0, 4.0])).item()
    5.0
    """
    if isinstance(axis, (list, tuple)) and len(axis) == 1:
        axis = axis[0]
    if axis is None:
        return _length(x, 2.0 if p == "fro" else p, -1, keepdim, whole=True)
    if isinstance(axis, int):
        return _length(x, 2.0 if p == "fro" else p, axis, keepdim)
    return _matrix_norm(x, p, int_list(axis), keepdim)


def dist(x: Tensor, y: Tensor, p: Any = 2, name: str | None = None) -> Any:
    """The `p`-norm of the difference of two tensors.

    >>> paddle.dist(paddle.to_tensor([3.0, 4.0]), paddle.zeros([2])).item()
    5.0
    """
    require_tensor(x, "x")
    require_tensor(y, "y")
    return _length(x - y, p, -1, False, whole=True)


def cdist(
    x: Tensor,
    y: Tensor,
    p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",
    name: str | None = None,
) -> Any:
    """The `p`-norms of the differences of all rows of one and all rows of the other.

    `compute_mode` has no meaning here: the differences are always computed.

    >>> paddle.cdist(paddle.zeros([2, 3]), paddle.ones([1, 3]), p=1.0).tolist()
    [[3.0], [3.0]]
    """
    return _length(ops.unsqueeze2(x, axes=[-2]) - ops.unsqueeze2(y, axes=[-3]), p, -1, False)


def cross(x: Tensor, y: Tensor, axis: Any = 9, name: str | None = None) -> Any:
    """The cross product of vectors of three elements.

    >>> paddle.cross(paddle.to_tensor([1.0, 0.0, 0.0]), paddle.to_tensor([0.0, 1.0, 0.0])).tolist()
    [0.0, 0.0, 1.0]
    """
    require_tensor(x, "x")
    if axis == 9:
        axis = next((i for i, n in enumerate(x.shape) if n == 3), -1)
    axis = normal_axis(axis, x.ndim)
    if x.shape[axis] != 3:
        raise ValueError(f"`cross` needs an axis of size 3, but the shape is {list(x.shape)}")
    (a, b, c), (d, e, f) = (ops.split(v, num=3, axis=axis, _count=3) for v in (x, y))
    return ops.concat([b * f - c * e, c * d - a * f, a * e - b * d], axis=axis)


def matrix_power(x: Tensor, n: int, name: str | None = None) -> Any:
    """A square matrix times itself, `n` times.

    >>> paddle.linalg.matrix_power(paddle.eye(2) * 2.0, 3).tolist()
    [[8.0, 0.0], [0.0, 8.0]]
    """
    if n < 0:
        raise NotImplementedError("`matrix_power` of negative powers needs an inverse")
    if n == 0:
        return ops.expand_as_v2(
            ops.eye(num_rows=x.shape[-1], dtype=x.dtype), x, target_shape=list(x.shape)
        )
    out = x
    for _ in range(n - 1):
        out = ops.matmul_v2(out, x)
    return out


def multi_dot(x: Any, name: str | None = None) -> Any:
    """The matrix product of all tensors of a list.

    >>> x, y, z = paddle.ones([2, 3]), paddle.ones([3, 4]), paddle.ones([4, 1])
    >>> paddle.linalg.multi_dot([x, y, z]).tolist()
    [[12.0], [12.0]]
    """
    out = x[0]
    for other in x[1:]:
        out = ops.matmul_v2(out, other)
    return out


def bincount(x: Tensor, weights: Any = None, minlength: int = 0, name: str | None = None) -> Any:
    """How often each integer occurs, or the sum of its weights.

    >>> paddle.bincount(paddle.to_tensor([0, 2, 2])).tolist()
    [1, 0, 2]
    """
    values = numpy_of(x, "bincount")
    weights = None if weights is None else numpy_of(weights, "bincount")
    counts = np.bincount(values, weights, integer(minlength, "minlength"))
    return as_tensor(counts if weights is None else counts.astype(weights.dtype))


def histogram(
    input: Tensor, bins: int = 100, min: int = 0, max: int = 0, name: str | None = None
) -> Any:
    """How many elements lie in each of `bins` equal ranges.

    >>> paddle.histogram(paddle.to_tensor([1.0, 2.0, 1.0]), bins=2, min=0, max=4).tolist()
    [2, 1]
    """
    values = numpy_of(input, "histogram")
    limits = (values.min(), values.max()) if min == 0 and max == 0 else (min, max)
    return as_tensor(np.histogram(values, bins, limits)[0].astype("int64"))


def cov(
    x: Tensor,
    rowvar: bool = True,
    ddof: bool = True,
    fweights: Any = None,
    aweights: Any = None,
    name: str | None = None,
) -> Any:
    """The covariances of variables, a row each.

    >>> paddle.linalg.cov(paddle.to_tensor([[1.0, 3.0]])).item()
    2.0
    """
    require_tensor(x, "x")
    if fweights is not None or aweights is not None:
        raise NotImplementedError("`cov` takes no weights")
    x = ops.unsqueeze2(x, axes=[0]) if x.ndim == 1 else x
    x = x if rowvar else ops.transpose2(x, axis=[1, 0])
    x = x - ops.reduce_mean(x, dim=[1], keep_dim=True)
    out = ops.matmul_v2(x, x, trans_y=True)
    return ops.scale(out, scale=1.0 / (x.shape[1] - (1 if ddof else 0)))


def _length(x: Tensor, p: Any, axis: int, keepdim: bool, whole: bool = False) -> Tensor:
    if not isinstance(p, (int, float)):
        raise TypeError(f"`p` of a vector norm must be a number or fro, but is {p!r}")
    return ops.p_norm(x, porder=real(p, "p"), axis=axis, keepdim=keepdim, asvector=whole)


def _matrix_norm(x: Tensor, p: Any, axes: list[int], keepdim: bool) -> Tensor:
    """Norms over two axes: Frobenius, the greatest or smallest sum, or elements as a vector."""
    if p == "fro" or p == 2:
        return ops.sqrt(ops.reduce_sum(ops.square(x), dim=axes, keep_dim=keepdim))
    if p == float("inf"):
        return ops.reduce_max(ops.abs(x), dim=axes, keep_dim=keepdim)
    if p == -float("inf"):
        return ops.reduce_min(ops.abs(x), dim=axes, keep_dim=keepdim)
    if p == "nuc":
        raise NotImplementedError("the nuclear norm needs singular values, which are not there")
    total = ops.reduce_sum(ops.pow(ops.abs(x), factor=real(p, "p")), dim=axes, keep_dim=keepdim)
    return ops.pow(total, factor=1.0 / real(p, "p"))


set_public_names(__name__)
