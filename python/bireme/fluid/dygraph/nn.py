"""Eager layers under their 1.x signatures; the work is that of `paddle.nn`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import nn
from ..._missing import missing_names
from ...static.nn.parameters import activate
from .. import layers


class Linear(nn.Linear):
    """`act(x @ w + b)`.

    >>> with paddle.fluid.dygraph.guard():
    ...     paddle.fluid.dygraph.Linear(3, 2, act="relu")(paddle.ones([4, 3])).shape
    [4, 2]
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        param_attr: Any = None,
        bias_attr: Any = None,
        act: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(input_dim, output_dim, param_attr, bias_attr)
        self.to(dtype=dtype)
        self._act = act

    def forward(self, input: Any) -> Any:
        """The layer's value."""
        return activate(super().forward(input), self._act)


class Embedding(nn.Embedding):
    """Rows of a table of `size`; `is_distributed` needs parameter servers.

    >>> with paddle.fluid.dygraph.guard():
    ...     paddle.fluid.dygraph.Embedding([10, 4])(paddle.to_tensor([1, 2])).shape
    [2, 4]
    """

    def __init__(
        self,
        size: Sequence[int],
        is_sparse: bool = False,
        is_distributed: bool = False,
        padding_idx: int | None = None,
        param_attr: Any = None,
        dtype: Any = "float32",
    ) -> None:
        if is_distributed:
            raise NotImplementedError("distributed tables are not in this version")
        rows, width = size
        super().__init__(rows, width, padding_idx, sparse=is_sparse, weight_attr=param_attr)
        self.to(dtype=dtype)


class Conv2D(nn.Conv2D):
    """A convolution of images; `use_cudnn` has no meaning here.

    >>> with paddle.fluid.dygraph.guard():
    ...     paddle.fluid.dygraph.Conv2D(1, 6, 5)(paddle.ones([1, 1, 28, 28])).shape
    [1, 6, 24, 24]
    """

    def __init__(
        self,
        num_channels: int,
        num_filters: int,
        filter_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int | None = None,
        param_attr: Any = None,
        bias_attr: Any = None,
        use_cudnn: bool = True,
        act: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(
            num_channels,
            num_filters,
            filter_size,
            stride,
            padding,
            dilation,
            groups or 1,
            weight_attr=param_attr,
            bias_attr=bias_attr,
        )
        self.to(dtype=dtype)
        self._act = act

    def forward(self, input: Any) -> Any:
        """The layer's value."""
        return activate(super().forward(input), self._act)


class Pool2D(nn.Layer):
    """The largest or the average of each window of images; `use_cudnn` has no meaning here.

    >>> with paddle.fluid.dygraph.guard():
    ...     paddle.fluid.dygraph.Pool2D(2, "max", 2)(paddle.ones([1, 1, 4, 4])).shape
    [1, 1, 2, 2]
    """

    def __init__(
        self,
        pool_size: int | Sequence[int] = -1,
        pool_type: str = "max",
        pool_stride: int | Sequence[int] = 1,
        pool_padding: int | Sequence[int] = 0,
        global_pooling: bool = False,
        use_cudnn: bool = True,
        ceil_mode: bool = False,
        exclusive: bool = True,
        data_format: str = "NCHW",
    ) -> None:
        super().__init__()
        self._settings: dict[str, Any] = {
            "pool_size": pool_size,
            "pool_type": pool_type,
            "pool_stride": pool_stride,
            "pool_padding": pool_padding,
            "global_pooling": global_pooling,
            "ceil_mode": ceil_mode,
            "exclusive": exclusive,
            "data_format": data_format,
        }

    def forward(self, input: Any) -> Any:
        """The layer's value."""
        return layers.pool2d(input, **self._settings)


class Dropout(nn.Layer):
    """Sets elements to zero with probability `p` while training.

    >>> with paddle.fluid.dygraph.guard():
    ...     drop = paddle.fluid.dygraph.Dropout(0.5)
    ...     drop.eval()
    ...     drop(paddle.ones([2])).tolist()
    [0.5, 0.5]
    """

    def __init__(
        self,
        p: float = 0.5,
        seed: int | None = None,
        dropout_implementation: str = "downgrade_in_infer",
        is_test: bool = False,
    ) -> None:
        super().__init__()
        self._settings = (p, seed, dropout_implementation)
        self._is_test = is_test

    def forward(self, input: Any) -> Any:
        """The layer's value."""
        p, seed, implementation = self._settings
        is_test = self._is_test or not self.training
        return layers.dropout(input, p, is_test, seed, dropout_implementation=implementation)


BatchNorm = nn.BatchNorm


class LayerNorm(nn.LayerNorm):
    """Each row scaled to mean 0 and variance 1, then by a learnt scale and shift.

    >>> with paddle.fluid.dygraph.guard():
    ...     paddle.fluid.dygraph.LayerNorm([3])(paddle.ones([2, 3])).shape
    [2, 3]
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        scale: bool = True,
        shift: bool = True,
        epsilon: float = 1e-05,
        param_attr: Any = None,
        bias_attr: Any = None,
        act: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(
            normalized_shape,
            epsilon,
            param_attr if scale else False,
            bias_attr if shift else False,
        )
        self.to(dtype=dtype)
        self._act = act

    def forward(self, input: Any) -> Any:
        """The layer's value."""
        return activate(super().forward(input), self._act)


__getattr__ = missing_names(__name__)
