"""Pooling layers."""

from __future__ import annotations

from ..._names import set_public_names
from .. import functional as F
from .function_layer import FunctionLayer


class _Pool(FunctionLayer):
    def extra_repr(self) -> str:
        shown = ("kernel_size", "stride", "padding", "output_size")
        return ", ".join(
            f"{k}={getattr(self, f'_{k}')}" for k in self._settings.parameters if k in shown
        )


class MaxPool1D(_Pool, of=F.max_pool1d):
    """The greatest element of each window of a sequence.

    >>> paddle.nn.MaxPool1D(2)(paddle.arange(4.0).reshape([1, 1, 4])).tolist()
    [[[1.0, 3.0]]]
    """


class MaxPool2D(_Pool, of=F.max_pool2d):
    """The greatest element of each window of a picture.

    >>> paddle.nn.MaxPool2D(2)(paddle.arange(16.0).reshape([1, 1, 4, 4])).tolist()
    [[[[5.0, 7.0], [13.0, 15.0]]]]
    """


class AvgPool1D(_Pool, of=F.avg_pool1d):
    """The mean of each window of a sequence.

    >>> paddle.nn.AvgPool1D(2)(paddle.arange(4.0).reshape([1, 1, 4])).tolist()
    [[[0.5, 2.5]]]
    """


class AvgPool2D(_Pool, of=F.avg_pool2d):
    """The mean of each window of a picture.

    >>> paddle.nn.AvgPool2D(2)(paddle.arange(16.0).reshape([1, 1, 4, 4])).tolist()
    [[[[2.5, 4.5], [10.5, 12.5]]]]
    """


class AdaptiveAvgPool1D(_Pool, of=F.adaptive_avg_pool1d):
    """Means of windows that cut a sequence into `output_size` parts.

    >>> paddle.nn.AdaptiveAvgPool1D(2)(paddle.arange(4.0).reshape([1, 1, 4])).tolist()
    [[[0.5, 2.5]]]
    """


class AdaptiveAvgPool2D(_Pool, of=F.adaptive_avg_pool2d):
    """Means of windows that cut a picture into `output_size` parts.

    >>> paddle.nn.AdaptiveAvgPool2D(2)(paddle.arange(16.0).reshape([1, 1, 4, 4])).tolist()
    [[[[2.5, 4.5], [10.5, 12.5]]]]
    """


class AdaptiveMaxPool1D(_Pool, of=F.adaptive_max_pool1d):
    """Greatest elements of windows that cut a sequence into `output_size` parts.

    >>> paddle.nn.AdaptiveMaxPool1D(2)(paddle.arange(4.0).reshape([1, 1, 4])).tolist()
    [[[1.0, 3.0]]]
    """


class AdaptiveMaxPool2D(_Pool, of=F.adaptive_max_pool2d):
    """Greatest elements of windows that cut a picture into `output_size` parts.

    >>> paddle.nn.AdaptiveMaxPool2D(2)(paddle.arange(16.0).reshape([1, 1, 4, 4])).tolist()
    [[[[5.0, 7.0], [13.0, 15.0]]]]
    """


set_public_names(__name__)
