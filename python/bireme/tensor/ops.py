"""Functions of one tensor, element by element."""

from __future__ import annotations

import math
from typing import Any

from .._names import set_public_names
from .arguments import Tensor, is_integer, ops, real, require_tensor


def _floating(x: Tensor) -> Tensor:
    """Integers as float32, for the functions that Paddle lets take them."""
    return ops.cast(x, in_dtype=x.dtype, out_dtype="float32") if is_integer(x) else x


def abs(x: Tensor, name: str | None = None) -> Any:
    """The absolute value of each element.

    >>> paddle.abs(paddle.to_tensor([-1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    return ops.abs(x)


def ceil(x: Tensor, name: str | None = None) -> Any:
    """Each element rounded up.

    >>> paddle.ceil(paddle.to_tensor([0.5, 1.0])).tolist()
    [1.0, 1.0]
    """
    return ops.ceil(x)


def cos(x: Tensor, name: str | None = None) -> Any:
    """The cosine of each element.

    >>> paddle.cos(paddle.to_tensor([0.0])).tolist()
    [1.0]
    """
    return ops.cos(_floating(x))


def exp(x: Tensor, name: str | None = None) -> Any:
    """e to the power of each element.

    >>> paddle.exp(paddle.to_tensor([0.0])).tolist()
    [1.0]
    """
    return ops.exp(_floating(x))


def floor(x: Tensor, name: str | None = None) -> Any:
    """Each element rounded down.

    >>> paddle.floor(paddle.to_tensor([0.5, -0.5])).tolist()
    [0.0, -1.0]
    """
    return ops.floor(x)


def reciprocal(x: Tensor, name: str | None = None) -> Any:
    """One over each element.

    >>> paddle.reciprocal(paddle.to_tensor([2.0, 4.0])).tolist()
    [0.5, 0.25]
    """
    return ops.reciprocal(_floating(x))


def round(x: Tensor, name: str | None = None) -> Any:
    """Each element rounded to the nearest integer.

    >>> paddle.round(paddle.to_tensor([0.75, 2.0])).tolist()
    [1.0, 2.0]
    """
    return ops.round(x)


def rsqrt(x: Tensor, name: str | None = None) -> Any:
    """One over the square root of each element.

    >>> paddle.rsqrt(paddle.to_tensor([4.0])).tolist()
    [0.5]
    """
    return ops.rsqrt(x)


def sin(x: Tensor, name: str | None = None) -> Any:
    """The sine of each element.

    >>> paddle.sin(paddle.to_tensor([0.0])).tolist()
    [0.0]
    """
    return ops.sin(_floating(x))


def sqrt(x: Tensor, name: str | None = None) -> Any:
    """The square root of each element.

    >>> paddle.sqrt(paddle.to_tensor([4.0])).tolist()
    [2.0]
    """
    return ops.sqrt(x)


def square(x: Tensor, name: str | None = None) -> Any:
    """The square of each element.

    >>> paddle.square(paddle.to_tensor([3.0])).tolist()
    [9.0]
    """
    return ops.square(x)


def tanh(x: Tensor, name: str | None = None) -> Any:
    """The hyperbolic tangent of each element.

    >>> paddle.tanh(paddle.to_tensor([0.0])).tolist()
    [0.0]
    """
    return ops.tanh(x)


def erf(x: Tensor, name: str | None = None) -> Any:
    """The error function of each element.

    >>> paddle.erf(paddle.to_tensor([0.0])).tolist()
    [0.0]
    """
    return ops.erf(_floating(x))


def log(x: Tensor, name: str | None = None) -> Any:
    """The natural logarithm of each element.

    >>> paddle.log(paddle.to_tensor([1.0])).tolist()
    [0.0]
    """
    return ops.log(_floating(x))


def log1p(x: Tensor, name: str | None = None) -> Any:
    """The natural logarithm of one plus each element.

    >>> paddle.log1p(paddle.to_tensor([0.0])).tolist()
    [0.0]
    """
    return ops.log1p(_floating(x))


def log2(x: Tensor, name: str | None = None) -> Any:
    """The logarithm to base 2 of each element.

    >>> paddle.log2(paddle.to_tensor([8.0])).tolist()
    [3.0]
    """
    return ops.log2(_floating(x))


def sign(x: Tensor, name: str | None = None) -> Any:
    """-1, 0 or 1, as each element is under, at or over 0.

    >>> paddle.sign(paddle.to_tensor([-3.0, 0.0])).tolist()
    [-1.0, 0.0]
    """
    return ops.sign(x)


def sigmoid(x: Tensor, name: str | None = None) -> Any:
    """1 / (1 + exp(-x)) of each element.

    >>> paddle.nn.functional.sigmoid(paddle.to_tensor([0.0])).tolist()
    [0.5]
    """
    return ops.sigmoid(x)


def isfinite(x: Tensor, name: str | None = None) -> Any:
    """Whether each element is a finite number.

    >>> paddle.isfinite(paddle.to_tensor([1.0, float("inf")])).tolist()
    [True, False]
    """
    return ops.isfinite_v2(x)


def isinf(x: Tensor, name: str | None = None) -> Any:
    """Whether each element is infinite.

    >>> paddle.isinf(paddle.to_tensor([1.0, float("inf")])).tolist()
    [False, True]
    """
    return ops.isinf_v2(x)


def isnan(x: Tensor, name: str | None = None) -> Any:
    """Whether each element is not a number.

    >>> paddle.isnan(paddle.to_tensor([1.0, float("nan")])).tolist()
    [False, True]
    """
    return ops.isnan_v2(x)


def neg(x: Tensor, name: str | None = None) -> Any:
    """Each element with the other sign.

    >>> paddle.neg(paddle.to_tensor([1.0, -2.0])).tolist()
    [-1.0, 2.0]
    """
    return ops.scale(x, scale=-1.0)


def log10(x: Tensor, name: str | None = None) -> Any:
    """The logarithm to base 10 of each element.

    >>> paddle.log10(paddle.to_tensor([1.0])).tolist()
    [0.0]
    """
    return ops.log10(_floating(x))


def expm1(x: Tensor, name: str | None = None) -> Any:
    """e to the power of each element, less one.

    >>> paddle.expm1(paddle.to_tensor([0.0])).tolist()
    [0.0]
    """
    return ops.expm1(_floating(x))


def sinh(x: Tensor, name: str | None = None) -> Any:
    """The hyperbolic sine of each element.

    >>> paddle.sinh(paddle.to_tensor([0.0])).tolist()
    [0.0]
    """
    return (ops.exp(x) - ops.exp(-x)) * 0.5


def cosh(x: Tensor, name: str | None = None) -> Any:
    """The hyperbolic cosine of each element.

    >>> paddle.cosh(paddle.to_tensor([0.0])).tolist()
    [1.0]
    """
    return (ops.exp(x) + ops.exp(-x)) * 0.5


def tan(x: Tensor, name: str | None = None) -> Any:
    """The tangent of each element.

    >>> paddle.tan(paddle.to_tensor([0.0])).tolist()
    [0.0]
    """
    return ops.sin(x) / ops.cos(x)


def asinh(x: Tensor, name: str | None = None) -> Any:
    """The inverse hyperbolic sine of each element.

    >>> paddle.asinh(paddle.to_tensor([0.0])).tolist()
    [0.0]
    """
    return ops.sign(x) * ops.log(ops.abs(x) + ops.sqrt(ops.square(x) + 1.0))


def acosh(x: Tensor, name: str | None = None) -> Any:
    """The inverse hyperbolic cosine of each element.

    >>> paddle.acosh(paddle.to_tensor([1.0])).tolist()
    [0.0]
    """
    return ops.log(x + ops.sqrt(ops.square(x) - 1.0))


def atanh(x: Tensor, name: str | None = None) -> Any:
    """The inverse hyperbolic tangent of each element.

    >>> paddle.atanh(paddle.to_tensor([0.0])).tolist()
    [0.0]
    """
    return (ops.log1p(x) - ops.log1p(-x)) * 0.5


def trunc(input: Tensor, name: str | None = None) -> Any:
    """Each element without its fraction.

    >>> paddle.trunc(paddle.to_tensor([1.5, -1.5])).tolist()
    [1.0, -1.0]
    """
    return ops.sign(input) * ops.floor(ops.abs(input))


def frac(x: Tensor, name: str | None = None) -> Any:
    """The fraction of each element, with its sign.

    >>> paddle.frac(paddle.to_tensor([1.5, -1.5])).tolist()
    [0.5, -0.5]
    """
    return x - trunc(x)


def rad2deg(x: Tensor, name: str | None = None) -> Any:
    """Angles from radians to degrees.

    >>> paddle.rad2deg(paddle.to_tensor([0.0])).tolist()
    [0.0]
    """
    return ops.scale(_floating(x), scale=180.0 / math.pi)


def deg2rad(x: Tensor, name: str | None = None) -> Any:
    """Angles from degrees to radians.

    >>> paddle.deg2rad(paddle.to_tensor([0.0])).tolist()
    [0.0]
    """
    return ops.scale(_floating(x), scale=math.pi / 180.0)


def logit(x: Tensor, eps: Any = None, name: str | None = None) -> Any:
    """log(x / (1 - x)) of each element, kept `eps` away from 0 and 1.

    >>> paddle.logit(paddle.to_tensor([0.5])).tolist()
    [0.0]
    """
    require_tensor(x, "x")
    x = x if eps is None else ops.clip(x, min=real(eps, "eps"), max=1.0 - real(eps, "eps"))
    return ops.log(x / (1.0 - x))


def stanh(
    x: Tensor, scale_a: float = 0.67, scale_b: float = 1.7159, name: str | None = None
) -> Any:
    """`scale_b * tanh(scale_a * x)` of each element.

    >>> paddle.stanh(paddle.to_tensor([0.0])).tolist()
    [0.0]
    """
    return ops.scale(ops.tanh(ops.scale(x, scale=scale_a)), scale=scale_b)


sgn = sign


set_public_names(__name__)
