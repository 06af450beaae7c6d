"""Activation functions."""

from __future__ import annotations

import math
from typing import Any

from ..._names import set_public_names
from ...tensor.arguments import Tensor, ops, random_like, real, require_tensor
from ...tensor.inplace import overwrite

#: A lower limit that limits nothing.


def relu(x: Tensor, name: str | None = None) -> Any:
    """max(x, 0) of each element.

    >>> paddle.nn.functional.relu(paddle.to_tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    return ops.relu(x)


def relu6(x: Tensor, name: str | None = None) -> Any:
    """min(max(x, 0), 6) of each element.

    >>> paddle.nn.functional.relu6(paddle.to_tensor([-1.0, 8.0])).tolist()
    [0.0, 6.0]
    """
    return ops.relu6(x)


def elu(x: Tensor, alpha: float = 1.0, name: str | None = None) -> Any:
    """x over 0, `alpha * (exp(x) - 1)` under it.

    >>> paddle.nn.functional.elu(paddle.to_tensor([0.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    return ops.elu(x, alpha=alpha)


def celu(x: Tensor, alpha: float = 1.0, name: str | None = None) -> Any:
    """x over 0, `alpha * (exp(x / alpha) - 1)` under it.

    >>> paddle.nn.functional.celu(paddle.to_tensor([0.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    if alpha == 0:
        raise ZeroDivisionError("`alpha` of `celu` must not be 0")
    return ops.scale(ops.elu(ops.scale(x, scale=1.0 / alpha)), scale=alpha)


def selu(
    x: Tensor,
    scale: float = 1.0507009873554804934193349852946,
    alpha: float = 1.6732632423543772848170429916717,
    name: str | None = None,
) -> Any:
    """Self-normalising: `scale` times x over 0, or times `alpha * (exp(x) - 1)` under it.

    >>> paddle.nn.functional.selu(paddle.to_tensor([0.0])).tolist()
    [0.0]
    """
    return ops.selu(x, scale=scale, alpha=alpha)


def gelu(x: Tensor, approximate: bool = False, name: str | None = None) -> Any:
    """x times the share of a normal distribution under it.

    >>> paddle.nn.functional.gelu(paddle.to_tensor([0.0])).tolist()
    [0.0]
    """
    return ops.gelu(x, approximate=approximate)


def sigmoid(x: Tensor, name: str | None = None) -> Any:
    """1 / (1 + exp(-x)) of each element.

    >>> paddle.nn.functional.sigmoid(paddle.to_tensor([0.0])).tolist()
    [0.5]
    """
    return ops.sigmoid(x)


def tanh(x: Tensor, name: str | None = None) -> Any:
    """The hyperbolic tangent of each element.

    >>> paddle.nn.functional.tanh(paddle.to_tensor([0.0])).tolist()
    [0.0]
    """
    return ops.tanh(x)


def silu(x: Tensor, name: str | None = None) -> Any:
    """x * sigmoid(x) of each element.

    >>> paddle.nn.functional.silu(paddle.to_tensor([0.0])).tolist()
    [0.0]
    """
    return ops.silu(x)


def swish(x: Tensor, name: str | None = None) -> Any:
    """x * sigmoid(x) of each element.

    >>> paddle.nn.functional.swish(paddle.to_tensor([0.0])).tolist()
    [0.0]
    """
    return ops.swish(x)


def mish(x: Tensor, name: str | None = None) -> Any:
    """x * tanh(softplus(x)) of each element.

    >>> paddle.nn.functional.mish(paddle.to_tensor([0.0])).tolist()
    [0.0]
    """
    return ops.mish(x)


def softplus(x: Tensor, beta: float = 1, threshold: float = 20, name: str | None = None) -> Any:
    """log(1 + exp(beta * x)) / beta, and x over the threshold.

    >>> paddle.nn.functional.softplus(paddle.to_tensor([50.0])).tolist()
    [50.0]
    """
    return ops.softplus(x, beta=real(beta, "beta"), threshold=real(threshold, "threshold"))


def softsign(x: Tensor, name: str | None = None) -> Any:
    """x / (1 + abs(x)) of each element.

    >>> paddle.nn.functional.softsign(paddle.to_tensor([1.0])).tolist()
    [0.5]
    """
    return ops.softsign(x)


def softshrink(x: Tensor, threshold: float = 0.5, name: str | None = None) -> Any:
    """x drawn towards 0 by the threshold, and 0 within it.

    >>> paddle.nn.functional.softshrink(paddle.to_tensor([-2.0, 0.25])).tolist()
    [-1.5, 0.0]
    """
    return ops.sign(x) * ops.relu(ops.scale(ops.abs(x), bias=-real(threshold, "threshold")))


def hardshrink(x: Tensor, threshold: float = 0.5, name: str | None = None) -> Any:
    """x, but 0 within the threshold.

    >>> paddle.nn.functional.hardshrink(paddle.to_tensor([-2.0, 0.25])).tolist()
    [-2.0, 0.0]
    """
    return ops.where(ops.abs(x) > threshold, x, ops.fill_any_like(x, value=0.0))


def tanhshrink(x: Tensor, name: str | None = None) -> Any:
    """x - tanh(x) of each element.

    >>> paddle.nn.functional.tanhshrink(paddle.to_tensor([0.0])).tolist()
    [0.0]
    """
    return x - ops.tanh(x)


def thresholded_relu(x: Tensor, threshold: float = 1.0, name: str | None = None) -> Any:
    """x over the threshold, else 0.

    >>> paddle.nn.functional.thresholded_relu(paddle.to_tensor([2.0, 0.5])).tolist()
    [2.0, 0.0]
    """
    require_tensor(x, "x")
    return ops.where(x > threshold, x, ops.fill_any_like(x, value=0.0))


def hardsigmoid(
    x: Tensor, slope: float = 0.1666667, offset: float = 0.5, name: str | None = None
) -> Any:
    """`slope * x + offset`, limited to [0, 1].

    >>> paddle.nn.functional.hardsigmoid(paddle.to_tensor([5.0])).tolist()
    [1.0]
    """
    return ops.hard_sigmoid(x, slope=slope, offset=offset)


def hardswish(x: Tensor, name: str | None = None) -> Any:
    """x * min(max(x + 3, 0), 6) / 6 of each element.

    >>> paddle.nn.functional.hardswish(paddle.to_tensor([0.0, 4.0])).tolist()
    [0.0, 4.0]
    """
    return ops.hard_swish(x)


def hardtanh(x: Tensor, min: float = -1.0, max: float = 1.0, name: str | None = None) -> Any:
    """x limited to [min, max].

    >>> paddle.nn.functional.hardtanh(paddle.to_tensor([-4.0, 0.5])).tolist()
    [-1.0, 0.5]
    """
    return ops.clip(x, min=real(min, "min"), max=real(max, "max"))


def leaky_relu(x: Tensor, negative_slope: float = 0.01, name: str | None = None) -> Any:
    """x over 0, `negative_slope * x` under it.

    >>> paddle.nn.functional.leaky_relu(paddle.to_tensor([-4.0, 0.5]), 0.5).tolist()
    [-2.0, 0.5]
    """
    return ops.leaky_relu(x, alpha=negative_slope)


def log_sigmoid(x: Tensor, name: str | None = None) -> Any:
    """log(sigmoid(x)), without overflow.

    >>> round(paddle.nn.functional.log_sigmoid(paddle.zeros([1])).item(), 4)
    -0.6931
    """
    require_tensor(x, "x")
    return -ops.softplus(-x)


def prelu(x: Tensor, weight: Tensor, data_format: str = "NCHW", name: str | None = None) -> Any:
    """x over 0, `weight * x` under it: one weight, or one for each channel.

    >>> paddle.nn.functional.prelu(paddle.to_tensor([-4.0, 1.0]), paddle.to_tensor([0.5])).tolist()
    [-2.0, 1.0]
    """
    mode = "all" if math.prod(weight.shape) == 1 else "channel"
    layout = (
        "NHWC" if mode == "channel" and data_format[-1:] == "C" and len(data_format) > 2 else "NCHW"
    )
    return ops.prelu(x, weight, mode=mode, data_format=layout)


def rrelu(
    x: Tensor,
    lower: float = 0.125,
    upper: float = 0.3333333333333333,
    training: bool = True,
    name: str | None = None,
) -> Any:
    """x over 0, x times a random slope under it; the mean slope outside of training.

    >>> paddle.nn.functional.rrelu(paddle.to_tensor([-4.0]), 0.5, 0.5).tolist()
    [-2.0]
    """
    if not training:
        return ops.leaky_relu(x, alpha=(lower + upper) / 2)
    slope = random_like(ops.uniform_random, x, min=real(lower, "lower"), max=real(upper, "upper"))
    return ops.where(x >= 0, x, x * slope)


def softmax(x: Tensor, axis: Any = -1, dtype: Any = None, name: str | None = None) -> Any:
    """exp(x) as shares of their sum along an axis.

    >>> paddle.nn.functional.softmax(paddle.to_tensor([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    x = x if dtype is None else ops.cast(x, in_dtype=x.dtype, out_dtype=dtype)
    return ops.softmax(x, axis=axis)


def log_softmax(x: Tensor, axis: Any = -1, dtype: Any = None, name: str | None = None) -> Any:
    """log(softmax(x)), without underflow.

    >>> paddle.nn.functional.log_softmax(paddle.to_tensor([0.0])).tolist()
    [0.0]
    """
    x = x if dtype is None else ops.cast(x, in_dtype=x.dtype, out_dtype=dtype)
    return ops.log_softmax(x, axis=axis)


def gumbel_softmax(
    x: Tensor, temperature: float = 1.0, hard: bool = False, axis: Any = -1, name: str | None = None
) -> Any:
    """Random shares by the logits `x`: one of them 1 if `hard`, with the gradient of the shares.

    >>> paddle.nn.functional.gumbel_softmax(paddle.zeros([2, 3])).sum(-1).tolist()
    [1.0, 1.0]
    """
    noise = random_like(ops.uniform_random, x, min=1e-10, max=1.0)
    gumbel = -ops.log(-ops.log(noise))
    soft = ops.softmax(ops.scale(x + gumbel, scale=1.0 / temperature), axis=axis)
    if not hard:
        return soft
    top = ops.cast(
        soft == ops.reduce_max(soft, dim=[axis], keep_dim=True), in_dtype="bool", out_dtype=x.dtype
    )
    return top - soft.detach() + soft


def glu(x: Tensor, axis: Any = -1, name: str | None = None) -> Any:
    """The first half times the sigmoid of the second.

    >>> paddle.nn.functional.glu(paddle.to_tensor([4.0, 0.0])).tolist()
    [2.0]
    """
    require_tensor(x, "x")
    size = x.shape[axis]
    if size % 2:
        raise ValueError(f"`glu` halves an axis, but its size is {size}")
    a, b = ops.split(x, num=2, axis=axis, _count=2)
    return a * ops.sigmoid(b)


def maxout(x: Tensor, groups: int, axis: Any = 1, name: str | None = None) -> Any:
    """The greatest of each group of neighbouring channels.

    >>> paddle.nn.functional.maxout(paddle.arange(4.0).reshape([1, 4, 1, 1]), 2).tolist()
    [[[[1.0]], [[3.0]]]]
    """
    require_tensor(x, "x")
    axis = axis + x.ndim if axis < 0 else axis
    shape = [*x.shape[:axis], x.shape[axis] // groups, groups, *x.shape[axis + 1 :]]
    return ops.reduce_max(ops.reshape2(x, shape=shape), dim=[axis + 1])


def _in_place(function: Any) -> Any:
    def call(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        return overwrite(x, function(x, *args, **kwargs))

    call.__name__ = call.__qualname__ = f"{function.__name__}_"
    call.__doc__ = f"As `{function.__name__}`, into `x`, which it returns."
    return call


elu_ = _in_place(elu)
hardtanh_ = _in_place(hardtanh)
leaky_relu_ = _in_place(leaky_relu)
relu_ = _in_place(relu)
softmax_ = _in_place(softmax)
tanh_ = _in_place(tanh)
thresholded_relu_ = _in_place(thresholded_relu)


set_public_names(__name__)
