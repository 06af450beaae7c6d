"""Small networks made of several layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._missing import missing_names
from . import layers

Variable = Any


def simple_img_conv_pool(
    input: Variable,
    num_filters: int,
    filter_size: int | Sequence[int],
    pool_size: int | Sequence[int],
    pool_stride: int | Sequence[int],
    pool_padding: int | Sequence[int] = 0,
    pool_type: str = "max",
    global_pooling: bool = False,
    conv_stride: int | Sequence[int] = 1,
    conv_padding: int | Sequence[int] = 0,
    conv_dilation: int | Sequence[int] = 1,
    conv_groups: int = 1,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    use_cudnn: bool = True,
) -> Variable:
    """A convolution and a pooling of images; `use_cudnn` has no meaning here.

    >>> images = paddle.fluid.layers.data("images", [1, 28, 28])
    >>> paddle.fluid.nets.simple_img_conv_pool(images, 20, 5, 2, 2, act="relu").shape
    (-1, 20, 12, 12)
    """
    convolved = layers.conv2d(
        input,
        num_filters,
        filter_size,
        conv_stride,
        conv_padding,
        conv_dilation,
        conv_groups,
        param_attr,
        bias_attr,
        act=act,
    )
    return layers.pool2d(convolved, pool_size, pool_type, pool_stride, pool_padding, global_pooling)


def glu(input: Variable, dim: int = -1) -> Variable:
    """Half of `input` along `dim`, times the sigmoid of the other half.

    >>> print(paddle.fluid.nets.glu(paddle.to_tensor([[1.0, 0.0]])).numpy())
    [[0.5]]
    """
    value, gate = layers.split(input, 2, dim)
    return layers.elementwise_mul(value, layers.sigmoid(gate))


__getattr__ = missing_names(__name__)
