"""Functions of one tensor under their 1.x signatures; those that 2.x kept are the same functions."""

from __future__ import annotations

from typing import Any

from ... import _core
from ...nn.functional import gelu, sigmoid, softplus, softsign
from ...tensor import (
    abs,
    ceil,
    cos,
    erf,
    exp,
    floor,
    log,
    reciprocal,
    round,
    rsqrt,
    sign,
    sin,
    sqrt,
    square,
    tanh,
)

Variable = Any
_ops = _core.ops

__all__ = [
    "abs",
    "ceil",
    "cos",
    "elu",
    "erf",
    "exp",
    "floor",
    "gelu",
    "hard_sigmoid",
    "leaky_relu",
    "log",
    "pow",
    "reciprocal",
    "relu",
    "relu6",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "softmax",
    "softplus",
    "softsign",
    "sqrt",
    "square",
    "swish",
    "tanh",
]


def relu(x: Variable, name: str | None = None) -> Variable:
    """`max(x, 0)`.

    >>> paddle.fluid.layers.relu(paddle.to_tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    return _ops.relu(x)


def leaky_relu(x: Variable, alpha: float = 0.02, name: str | None = None) -> Variable:
    """`max(x, alpha * x)`.

    >>> paddle.fluid.layers.leaky_relu(paddle.to_tensor([-1.0, 2.0]), 0.5).tolist()
    [-0.5, 2.0]
    """
    return _ops.leaky_relu(x, alpha=alpha)


def relu6(x: Variable, threshold: float = 6.0, name: str | None = None) -> Variable:
    """`min(max(x, 0), threshold)`.

    >>> paddle.fluid.layers.relu6(paddle.to_tensor([-1.0, 7.0])).tolist()
    [0.0, 6.0]
    """
    return _ops.relu6(x, threshold=threshold)


def elu(x: Variable, alpha: float = 1.0, name: str | None = None) -> Variable:
    """`x` where positive, else `alpha * (exp(x) - 1)`.

    >>> paddle.fluid.layers.elu(paddle.to_tensor([2.0])).tolist()
    [2.0]
    """
    return _ops.elu(x, alpha=alpha)


def swish(x: Variable, beta: float = 1.0, name: str | None = None) -> Variable:
    """`x * sigmoid(beta * x)`.

    >>> paddle.fluid.layers.swish(paddle.to_tensor([0.0])).tolist()
    [0.0]
    """
    return _ops.swish(x, beta=beta)


def hard_sigmoid(
    x: Variable, slope: float = 0.2, offset: float = 0.5, name: str | None = None
) -> Variable:
    """`slope * x + offset`, cut to [0, 1].

    >>> paddle.fluid.layers.hard_sigmoid(paddle.to_tensor([0.0, 9.0])).tolist()
    [0.5, 1.0]
    """
    return _ops.hard_sigmoid(x, slope=slope, offset=offset)


def pow(x: Variable, factor: float | Variable = 1.0, name: str | None = None) -> Variable:
    """`x` to the power of `factor`, a number or a tensor of one.

    >>> paddle.fluid.layers.pow(paddle.to_tensor([3.0]), 2.0).tolist()
    [9.0]
    """
    if isinstance(factor, (int, float)):
        return _ops.pow(x, factor=float(factor))
    return _ops.pow(x, factor)


def softmax(
    input: Variable, use_cudnn: bool = False, name: str | None = None, axis: int = -1
) -> Variable:
    """Exponentials that sum to 1 along `axis`; `use_cudnn` has no meaning here.

    >>> paddle.fluid.layers.softmax(paddle.to_tensor([[1.0, 1.0]])).tolist()
    [[0.5, 0.5]]
    """
    return _ops.softmax(input, axis=axis)
