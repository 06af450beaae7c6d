"""Pooling layers."""

from __future__ import annotations

from typing import Any

from ..._names import set_public_names
from ...tensor.arguments import Tensor
from .. import functional as F
from .layers import Layer


class _Pool(Layer):
    """Keeps the arguments of a pooling function, by name."""

    _function: Any = None

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__()
        self._settings = settings

    def forward(self, x: Tensor) -> Tensor:
        return type(self)._function(x, **self._settings)

    def extra_repr(self) -> str:
        shown = ("kernel_size", "stride", "padding", "output_size")
        return ", ".join(f"{k}={v}" for k, v in self._settings.items() if k in shown)


class MaxPool1D(_Pool):
    """The greatest element of each window of a sequence.

    >>> paddle.nn.MaxPool1D(2)(paddle.arange(4.0).reshape([1, 1, 4])).tolist()
    [[[1.0, 3.0]]]
    """

    _function = F.max_pool1d

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(
            {
                "kernel_size": kernel_size,
                "stride": stride,
                "padding": padding,
                "return_mask": return_mask,
                "ceil_mode": ceil_mode,
            }
        )


class MaxPool2D(_Pool):
    """The greatest element of each window of a picture.

    >>> paddle.nn.MaxPool2D(2)(paddle.arange(16.0).reshape([1, 1, 4, 4])).tolist()
    [[[[5.0, 7.0], [13.0, 15.0]]]]
    """

    _function = F.max_pool2d

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__(
            {
                "kernel_size": kernel_size,
                "stride": stride,
                "padding": padding,
                "return_mask": return_mask,
                "ceil_mode": ceil_mode,
                "data_format": data_format,
            }
        )


class AvgPool1D(_Pool):
    """The mean of each window of a sequence.

    >>> paddle.nn.AvgPool1D(2)(paddle.arange(4.0).reshape([1, 1, 4])).tolist()
    [[[0.5, 2.5]]]
    """

    _function = F.avg_pool1d

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        exclusive: bool = True,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(
            {
                "kernel_size": kernel_size,
                "stride": stride,
                "padding": padding,
                "exclusive": exclusive,
                "ceil_mode": ceil_mode,
            }
        )


class AvgPool2D(_Pool):
    """The mean of each window of a picture.

    >>> paddle.nn.AvgPool2D(2)(paddle.arange(16.0).reshape([1, 1, 4, 4])).tolist()
    [[[[2.5, 4.5], [10.5, 12.5]]]]
    """

    _function = F.avg_pool2d

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        exclusive: bool = True,
        divisor_override: float | None = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__(
            {
                "kernel_size": kernel_size,
                "stride": stride,
                "padding": padding,
                "ceil_mode": ceil_mode,
                "exclusive": exclusive,
                "divisor_override": divisor_override,
                "data_format": data_format,
            }
        )


class AdaptiveAvgPool1D(_Pool):
    """Means of windows that cut a sequence into `output_size` parts.

    >>> paddle.nn.AdaptiveAvgPool1D(2)(paddle.arange(4.0).reshape([1, 1, 4])).tolist()
    [[[0.5, 2.5]]]
    """

    _function = F.adaptive_avg_pool1d

    def __init__(self, output_size: int, name: str | None = None) -> None:
        super().__init__({"output_size": output_size})


class AdaptiveAvgPool2D(_Pool):
    """Means of windows that cut a picture into `output_size` parts.

    >>> paddle.nn.AdaptiveAvgPool2D(2)(paddle.arange(16.0).reshape([1, 1, 4, 4])).tolist()
    [[[[2.5, 4.5], [10.5, 12.5]]]]
    """

    _function = F.adaptive_avg_pool2d

    def __init__(
        self, output_size: Any, data_format: str = "NCHW", name: str | None = None
    ) -> None:
        super().__init__({"output_size": output_size, "data_format": data_format})


class AdaptiveMaxPool1D(_Pool):
    """Greatest elements of windows that cut a sequence into `output_size` parts.

    >>> paddle.nn.AdaptiveMaxPool1D(2)(paddle.arange(4.0).reshape([1, 1, 4])).tolist()
    [[[1.0, 3.0]]]
    """

    _function = F.adaptive_max_pool1d

    def __init__(
        self, output_size: int, return_mask: bool = False, name: str | None = None
    ) -> None:
        super().__init__({"output_size": output_size, "return_mask": return_mask})


class AdaptiveMaxPool2D(_Pool):
    """Greatest elements of windows that cut a picture into `output_size` parts.

    >>> paddle.nn.AdaptiveMaxPool2D(2)(paddle.arange(16.0).reshape([1, 1, 4, 4])).tolist()
    [[[[5.0, 7.0], [13.0, 15.0]]]]
    """

    _function = F.adaptive_max_pool2d

    def __init__(
        self, output_size: Any, return_mask: bool = False, name: str | None = None
    ) -> None:
        super().__init__({"output_size": output_size, "return_mask": return_mask})


set_public_names(__name__)
