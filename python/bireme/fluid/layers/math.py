"""Arithmetic under 1.x names: reductions, products, scaling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import _core
from ..._names import set_public_names
from ...static.nn.parameters import activate

Variable = Any
_ops = _core.ops


def reduce_sum(
    input: Variable,
    dim: int | Sequence[int] | None = None,
    keep_dim: bool = False,
    name: str | None = None,
) -> Variable:
    """The sum over `dim`, or over everything.

    >>> paddle.fluid.layers.reduce_sum(paddle.ones([2, 3]), dim=1).tolist()
    [3.0, 3.0]
    """
    return _ops.reduce_sum(input, **_dims(input, dim), keep_dim=keep_dim)


def reduce_mean(
    input: Variable,
    dim: int | Sequence[int] | None = None,
    keep_dim: bool = False,
    name: str | None = None,
) -> Variable:
    """The mean over `dim`, or over everything.

    >>> paddle.fluid.layers.reduce_mean(paddle.ones([2, 3]), dim=[0]).tolist()
    [1.0, 1.0, 1.0]
    """
    return _ops.reduce_mean(input, **_dims(input, dim), keep_dim=keep_dim)


def reduce_max(
    input: Variable,
    dim: int | Sequence[int] | None = None,
    keep_dim: bool = False,
    name: str | None = None,
) -> Variable:
    """The largest over `dim`, or of everything.

    >>> paddle.fluid.layers.reduce_max(paddle.to_tensor([[1.0, 2.0]]), dim=1).tolist()
    [2.0]
    """
    return _ops.reduce_max(input, **_dims(input, dim), keep_dim=keep_dim)


def reduce_min(
    input: Variable,
    dim: int | Sequence[int] | None = None,
    keep_dim: bool = False,
    name: str | None = None,
) -> Variable:
    """The smallest over `dim`, or of everything.

    >>> paddle.fluid.layers.reduce_min(paddle.to_tensor([[1.0, 2.0]]), dim=1).tolist()
    [1.0]
    """
    return _ops.reduce_min(input, **_dims(input, dim), keep_dim=keep_dim)


def reduce_prod(
    input: Variable,
    dim: int | Sequence[int] | None = None,
    keep_dim: bool = False,
    name: str | None = None,
) -> Variable:
    """The product over `dim`, or of everything.

    >>> paddle.fluid.layers.reduce_prod(paddle.to_tensor([[3.0, 2.0]]), dim=1).tolist()
    [6.0]
    """
    return _ops.reduce_prod(input, **_dims(input, dim), keep_dim=keep_dim)


def reduce_all(
    input: Variable,
    dim: int | Sequence[int] | None = None,
    keep_dim: bool = False,
    name: str | None = None,
) -> Variable:
    """Whether all along `dim` are true.

    >>> paddle.fluid.layers.reduce_all(paddle.to_tensor([[True, False]]), dim=1).tolist()
    [False]
    """
    return _ops.reduce_all(input, **_dims(input, dim), keep_dim=keep_dim)


def reduce_any(
    input: Variable,
    dim: int | Sequence[int] | None = None,
    keep_dim: bool = False,
    name: str | None = None,
) -> Variable:
    """Whether any along `dim` is true.

    >>> paddle.fluid.layers.reduce_any(paddle.to_tensor([[True, False]]), dim=1).tolist()
    [True]
    """
    return _ops.reduce_any(input, **_dims(input, dim), keep_dim=keep_dim)


def mean(x: Variable, name: str | None = None) -> Variable:
    """The mean of everything.

    >>> paddle.fluid.layers.mean(paddle.to_tensor([1.0, 2.0])).item()
    1.5
    """
    return _ops.mean(x)


def mul(
    x: Variable,
    y: Variable,
    x_num_col_dims: int = 1,
    y_num_col_dims: int = 1,
    name: str | None = None,
) -> Variable:
    """The product of two matrices; sizes from `num_col_dims` on are flattened into columns.

    >>> paddle.fluid.layers.mul(paddle.ones([2, 3]), paddle.ones([3, 2])).tolist()
    [[3.0, 3.0], [3.0, 3.0]]
    """
    return _ops.mul(x, y, x_num_col_dims=x_num_col_dims, y_num_col_dims=y_num_col_dims)


def matmul(
    x: Variable,
    y: Variable,
    transpose_x: bool = False,
    transpose_y: bool = False,
    alpha: float = 1.0,
    name: str | None = None,
) -> Variable:
    """`alpha * x @ y`, batched over leading sizes.

    >>> x = paddle.to_tensor([[1.0, 2.0]])
    >>> paddle.fluid.layers.matmul(x, x, transpose_y=True).tolist()
    [[5.0]]
    """
    return _ops.matmul(x, y, transpose_X=transpose_x, transpose_Y=transpose_y, alpha=alpha)


def scale(
    x: Variable,
    scale: float | Variable = 1.0,
    bias: float = 0.0,
    bias_after_scale: bool = True,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """`act(x * scale + bias)`, or `act((x + bias) * scale)`.

    >>> paddle.fluid.layers.scale(paddle.to_tensor([2.0]), 3.0, 1.0).tolist()
    [7.0]
    """
    if isinstance(scale, (int, float)):
        out = _ops.scale(x, scale=float(scale), bias=bias, bias_after_scale=bias_after_scale)
    else:
        out = _ops.scale(x, scale, bias=bias, bias_after_scale=bias_after_scale)
    return activate(out, act)


def clip(x: Variable, min: float, max: float, name: str | None = None) -> Variable:
    """`x` cut to [min, max].

    >>> paddle.fluid.layers.clip(paddle.to_tensor([-3.0, 3.0]), -1.0, 1.0).tolist()
    [-1.0, 1.0]
    """
    return _ops.clip(x, min=min, max=max)


def clip_by_norm(x: Variable, max_norm: float, name: str | None = None) -> Variable:
    """`x`, made shorter where its norm is over `max_norm`.

    >>> paddle.fluid.layers.clip_by_norm(paddle.to_tensor([3.0, 4.0]), 10.0).tolist()
    [3.0, 4.0]
    """
    return _ops.clip_by_norm(x, max_norm=max_norm)


def sums(input: Sequence[Variable], out: Variable | None = None) -> Variable:
    """The sum of several tensors; `out`, where given, is overwritten with it.

    >>> paddle.fluid.layers.sums([paddle.ones([1]), paddle.ones([1])]).tolist()
    [2.0]
    """
    inputs = list(input) if isinstance(input, (list, tuple)) else [input]
    if out is None:
        return _ops.sum(inputs)
    _ops.sum(inputs, _into={"Out": out})
    return out


def sum(x: Variable | Sequence[Variable]) -> Variable:
    """The sum of several tensors.

    >>> paddle.fluid.layers.sum([paddle.ones([1]), paddle.ones([1])]).tolist()
    [2.0]
    """
    return sums(x)


def cumsum(
    x: Variable,
    axis: int | None = None,
    exclusive: bool | None = None,
    reverse: bool | None = None,
    name: str | None = None,
) -> Variable:
    """Running sums along `axis`, by default the last one.

    >>> paddle.fluid.layers.cumsum(paddle.to_tensor([1.0, 2.0])).tolist()
    [1.0, 3.0]
    """
    return _ops.cumsum(
        x,
        axis=-1 if axis is None else axis,
        exclusive=bool(exclusive),
        reverse=bool(reverse),
    )


def l2_normalize(
    x: Variable, axis: int, epsilon: float = 1e-12, name: str | None = None
) -> Variable:
    """`x` divided by its norm along `axis`.

    >>> x = paddle.to_tensor([[3.0, 4.0]])
    >>> print(paddle.fluid.layers.l2_normalize(x, axis=1).numpy().round(4))
    [[0.6 0.8]]
    """
    return _ops.norm(x, axis=axis, epsilon=epsilon, _outputs=("Out",))


def cos_sim(X: Variable, Y: Variable) -> Variable:
    """The cosine between each row of `X` and that of `Y`, or the only one of `Y`: shape [N, 1].

    >>> x = paddle.to_tensor([[3.0, 4.0]])
    >>> abs(paddle.fluid.layers.cos_sim(x, x).item() - 1.0) < 1e-6
    True
    """
    products = _ops.reduce_sum(_ops.elementwise_mul(X, Y), dim=[1], keep_dim=True)
    return _ops.elementwise_div(products, _ops.elementwise_mul(_length(X), _length(Y)))


def _length(x: Variable) -> Variable:
    return _ops.sqrt(_ops.reduce_sum(_ops.square(x), dim=[1], keep_dim=True))


def _dims(input: Variable, dim: int | Sequence[int] | None) -> dict[str, Any]:
    if dim is None or dim == []:
        return {"dim": [], "reduce_all": True}
    dims = [dim] if isinstance(dim, int) else list(dim)
    return {"dim": dims, "reduce_all": len(dims) == input.ndim}


set_public_names(__name__)
