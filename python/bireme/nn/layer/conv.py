"""Convolution layers."""

from __future__ import annotations

import math
from typing import Any

from ...tensor.arguments import Tensor, default_dtype, pair
from .. import functional as F
from ..functional.conv import paddings
from ..initializer import Normal
from .layers import Layer

__all__ = ["Conv1D", "Conv2D"]


class _Conv(Layer):
    _dims = 0
    _formats: tuple[str, str] = ("", "")

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str | None = None,
    ) -> None:
        super().__init__()
        data_format = data_format or self._formats[0]
        if data_format not in self._formats:
            raise ValueError(
                f"`data_format` must be one of {self._formats}, but is {data_format!r}"
            )
        if groups <= 0 or in_channels % groups:
            raise ValueError(f"{in_channels} channels cannot be divided into {groups} groups")
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise ValueError(
                "`padding_mode` must be zeros, reflect, replicate or circular, "
                f"but is {padding_mode!r}"
            )
        self._dtype = default_dtype()
        self._in_channels = in_channels
        self._out_channels = out_channels
        self._kernel_size = pair(kernel_size, self._dims, "kernel_size")
        self._stride = pair(stride, self._dims, "stride")
        self._dilation = pair(dilation, self._dims, "dilation")
        self._padding = padding
        self._padding_mode = padding_mode
        self._groups = groups
        self._data_format = data_format
        # He's rule for the number of inputs of a filter.
        fan_in = math.prod(self._kernel_size) * in_channels
        self.weight = self.create_parameter(
            [out_channels, in_channels // groups, *self._kernel_size],
            weight_attr,
            default_initializer=Normal(0.0, (2.0 / fan_in) ** 0.5),
        )
        self.bias = self.create_parameter([out_channels], bias_attr, is_bias=True)

    def _padded(self, x: Tensor) -> tuple[Tensor, Any]:
        """The input and the padding that is left to the convolution."""
        if self._padding_mode == "zeros":
            return x, self._padding
        numbers, algorithm = paddings(
            self._padding, self._dims, self._data_format == self._formats[1]
        )
        if algorithm != "EXPLICIT":
            raise ValueError(f"the padding {algorithm} works with zeros only")
        if len(numbers) == self._dims:
            numbers = [n for n in numbers for _ in range(2)]
        # `pad` counts from the last axis, convolutions from the first.
        pairs = [numbers[2 * i : 2 * i + 2] for i in range(self._dims)][::-1]
        flat = [n for p in pairs for n in p]
        return F.pad(x, flat, self._padding_mode, data_format=self._data_format), 0

    def forward(self, x: Tensor) -> Tensor:
        x, padding = self._padded(x)
        function = F.conv1d if self._dims == 1 else F.conv2d
        settings = (self._stride, padding, self._dilation, self._groups, self._data_format)
        return function(x, self.weight, self.bias, *settings)

    def extra_repr(self) -> str:
        text = f"{self._in_channels}, {self._out_channels}, kernel_size={self._kernel_size}"
        if self._stride != [1] * self._dims:
            text += f", stride={self._stride}"
        if self._padding != 0:
            text += f", padding={self._padding}"
        if self._padding_mode != "zeros":
            text += f", padding_mode={self._padding_mode}"
        if self._dilation != [1] * self._dims:
            text += f", dilation={self._dilation}"
        if self._groups != 1:
            text += f", groups={self._groups}"
        return f"{text}, data_format={self._data_format}"


class Conv1D(_Conv):
    """The convolution of sequences with learned filters.

    >>> layer = paddle.nn.Conv1D(1, 1, 3, weight_attr=paddle.nn.initializer.Constant(1.0))
    >>> layer(paddle.arange(4.0).reshape([1, 1, 4])).tolist()
    [[[3.0, 6.0]]]
    """

    _dims, _formats = 1, ("NCL", "NLC")


class Conv2D(_Conv):
    """The convolution of pictures with learned filters.

    >>> layer = paddle.nn.Conv2D(1, 1, 2, weight_attr=paddle.nn.initializer.Constant(1.0))
    >>> layer(paddle.arange(6.0).reshape([1, 1, 2, 3])).tolist()
    [[[[8.0, 12.0]]]]
    """

    _dims, _formats = 2, ("NCHW", "NHWC")
