"""Arithmetic of two tensors under 1.x names, where the smaller may start at any axis."""

from __future__ import annotations

from typing import Any

from ... import _core
from ..._names import set_public_names
from ...static.nn.parameters import activate

Variable = Any
_ops = _core.ops


def elementwise_add(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """`act(x + y)`; `y` may be smaller, its sizes fit those of `x` from `axis` on.

    >>> x, y = paddle.ones([2, 3]), paddle.to_tensor([1.0, 2.0])
    >>> paddle.fluid.layers.elementwise_add(x, y, axis=0).tolist()
    [[2.0, 2.0, 2.0], [3.0, 3.0, 3.0]]
    """
    return activate(_ops.elementwise_add(x, y, axis=axis), act)


def elementwise_sub(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """`act(x - y)`, see `elementwise_add`.

    >>> paddle.fluid.layers.elementwise_sub(paddle.ones([1]), paddle.ones([1])).tolist()
    [0.0]
    """
    return activate(_ops.elementwise_sub(x, y, axis=axis), act)


def elementwise_mul(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """`act(x * y)`, see `elementwise_add`.

    >>> paddle.fluid.layers.elementwise_mul(paddle.ones([1]), paddle.ones([1])).tolist()
    [1.0]
    """
    return activate(_ops.elementwise_mul(x, y, axis=axis), act)


def elementwise_div(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """`act(x / y)`, see `elementwise_add`.

    >>> paddle.fluid.layers.elementwise_div(paddle.ones([1]), paddle.ones([1])).tolist()
    [1.0]
    """
    return activate(_ops.elementwise_div(x, y, axis=axis), act)


def elementwise_max(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """`act(max(x, y))`, see `elementwise_add`.

    >>> paddle.fluid.layers.elementwise_max(paddle.ones([1]), paddle.zeros([1])).tolist()
    [1.0]
    """
    return activate(_ops.elementwise_max(x, y, axis=axis), act)


def elementwise_min(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """`act(min(x, y))`, see `elementwise_add`.

    >>> paddle.fluid.layers.elementwise_min(paddle.ones([1]), paddle.zeros([1])).tolist()
    [0.0]
    """
    return activate(_ops.elementwise_min(x, y, axis=axis), act)


def elementwise_pow(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """`act(x ** y)`, see `elementwise_add`.

    >>> paddle.fluid.layers.elementwise_pow(paddle.ones([1]), paddle.ones([1])).tolist()
    [1.0]
    """
    return activate(_ops.elementwise_pow(x, y, axis=axis), act)


def elementwise_mod(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """`act(x % y)`, see `elementwise_add`.

    >>> seven, three = paddle.to_tensor([7]), paddle.to_tensor([3])
    >>> paddle.fluid.layers.elementwise_mod(seven, three).tolist()
    [1]
    """
    return activate(_ops.elementwise_mod(x, y, axis=axis), act)


def elementwise_floordiv(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """`act(x // y)`, see `elementwise_add`.

    >>> seven, three = paddle.to_tensor([7]), paddle.to_tensor([3])
    >>> paddle.fluid.layers.elementwise_floordiv(seven, three).tolist()
    [2]
    """
    return activate(_ops.elementwise_floordiv(x, y, axis=axis), act)


set_public_names(__name__)
