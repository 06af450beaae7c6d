"""Normalisation layers."""

from __future__ import annotations

from typing import Any

from ..._names import set_public_names
from ...tensor.arguments import Tensor, default_dtype, ops
from .. import functional as F
from ..initializer import Constant
from .common import named
from .layers import Layer


class LayerNorm(Layer):
    """Mean 0 and variance 1 over the last axes, then a weight and a bias for each element.

    >>> paddle.nn.LayerNorm(2)(paddle.ones([1, 2])).tolist()
    [[0.0, 0.0]]
    """

    def __init__(
        self,
        normalized_shape: Any,
        epsilon: float = 1e-05,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
        size = [1]
        for n in shape:
            size[0] *= n
        self._normalized_shape = shape
        self._epsilon = epsilon
        one = Constant(1.0)
        self.weight = self.create_parameter(size, weight_attr, default_initializer=one)
        self.bias = self.create_parameter(size, bias_attr, is_bias=True)

    def forward(self, input: Tensor) -> Tensor:
        begin = input.ndim - len(self._normalized_shape)
        if begin < 0 or list(input.shape[begin:]) != self._normalized_shape:
            raise ValueError(
                f"the input of shape {list(input.shape)} does not end with "
                f"`normalized_shape` {self._normalized_shape}"
            )
        return ops.layer_norm(
            input, self.weight, self.bias, epsilon=self._epsilon, begin_norm_axis=begin
        )

    def extra_repr(self) -> str:
        return f"normalized_shape={self._normalized_shape}, epsilon={self._epsilon}"


class _Statistics(Layer):
    """Weight and bias of channels, and running statistics, which are parameters that never learn."""

    def _make(
        self,
        channels: int,
        weight_attr: Any,
        bias_attr: Any,
        mean_name: str | None,
        variance_name: str | None,
    ) -> None:
        from ...framework import ParamAttr

        one = Constant(1.0)
        self.weight = self.create_parameter([channels], weight_attr, default_initializer=one)
        self.bias = self.create_parameter([channels], bias_attr, is_bias=True)
        for attribute, name, start in (
            ("_mean", mean_name, Constant(0.0)),
            ("_variance", variance_name, one),
        ):
            attr = ParamAttr(name=name, initializer=start, trainable=False)
            value = self.create_parameter([channels], attr)
            value.stop_gradient = True
            setattr(self, attribute, value)


class _BatchNormBase(_Statistics):
    _formats: tuple[str, ...] = ()
    _dims: tuple[int, ...] = ()

    def __init__(
        self,
        num_features: int,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str | None = None,
        use_global_stats: bool | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        data_format = data_format or self._formats[0]
        if data_format not in self._formats:
            raise ValueError(
                f"`data_format` must be one of {self._formats}, but is {data_format!r}"
            )
        self._dtype = default_dtype()
        self._num_features = num_features
        self._momentum = momentum
        self._epsilon = epsilon
        self._data_format = data_format
        self._use_global_stats = use_global_stats
        self._name = name
        names = (f"{name}_mean", f"{name}_variance") if name else (None, None)
        self._make(num_features, weight_attr, bias_attr, *names)

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in self._dims:
            raise ValueError(
                f"`{type(self).__name__}` takes {' or '.join(map(str, self._dims))} axes, "
                f"but the input has {input.ndim}"
            )
        return F.batch_norm(
            input,
            self._mean,
            self._variance,
            self.weight,
            self.bias,
            training=self.training,
            momentum=self._momentum,
            epsilon=self._epsilon,
            data_format=self._data_format,
            use_global_stats=self._use_global_stats,
        )

    def extra_repr(self) -> str:
        numbers = f"num_features={self._num_features}, momentum={self._momentum}"
        layout = (
            "" if self._data_format == self._formats[0] else f", data_format={self._data_format}"
        )
        return f"{numbers}, epsilon={self._epsilon}{layout}{named(self._name)}"


class BatchNorm1D(_BatchNormBase):
    """Mean 0 and variance 1 of each feature over the batch, or by the running statistics.

    >>> print(paddle.nn.BatchNorm1D(1)(paddle.to_tensor([[1.0], [3.0]])).numpy().round(3).ravel())
    [-1.  1.]
    """

    _formats = ("NCL", "NLC", "NC")
    _dims = (2, 3)


class BatchNorm2D(_BatchNormBase):
    """Mean 0 and variance 1 of each channel of pictures over the batch.

    >>> print(paddle.nn.BatchNorm2D(1)(paddle.to_tensor([[[[1.0, 3.0]]]])).numpy().round(3).ravel())
    [-1.  1.]
    """

    _formats = ("NCHW", "NHWC")
    _dims = (4,)


class SyncBatchNorm(BatchNorm2D):
    """As `BatchNorm2D`: on one process there is nothing to synchronise.

    >>> x = paddle.to_tensor([[[[1.0, 3.0]]]])
    >>> print(paddle.nn.SyncBatchNorm(1)(x).numpy().round(3).ravel())
    [-1.  1.]
    """

    def __init__(
        self,
        num_features: int,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        settings = (momentum, epsilon, weight_attr, bias_attr, data_format)
        super().__init__(num_features, *settings, name=name)


class BatchNorm(_Statistics):
    """Batch normalisation for any number of axes, with an activation: the 1.x interface.

    `in_place` and `do_model_average_for_mean_and_var` have no meaning here: results are the same.

    >>> x = paddle.to_tensor([[1.0], [3.0]])
    >>> print(paddle.nn.BatchNorm(1, act="relu")(x).numpy().round(3).ravel())
    [0. 1.]
    """

    def __init__(
        self,
        num_channels: int,
        act: str | None = None,
        is_test: bool = False,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        param_attr: Any = None,
        bias_attr: Any = None,
        dtype: str = "float32",
        data_layout: str = "NCHW",
        in_place: bool = False,
        moving_mean_name: str | None = None,
        moving_variance_name: str | None = None,
        do_model_average_for_mean_and_var: bool = True,
        use_global_stats: bool = False,
        trainable_statistics: bool = False,
    ) -> None:
        super().__init__(dtype=dtype)
        self._act = act
        self._is_test = is_test
        self._settings = {
            "momentum": momentum,
            "epsilon": epsilon,
            "data_layout": data_layout,
            "use_global_stats": use_global_stats,
            "trainable_statistics": trainable_statistics,
        }
        names = (moving_mean_name, moving_variance_name)
        self._make(num_channels, param_attr, bias_attr, *names)

    def forward(self, input: Tensor) -> Tensor:
        eager = isinstance(input, Tensor)
        out = ops.batch_norm(
            input,
            self.weight,
            self.bias,
            self._mean,
            self._variance,
            is_test=not self.training if eager else self._is_test,
            **self._settings,
            _into={"MeanOut": self._mean, "VarianceOut": self._variance},
        )
        return getattr(ops, self._act)(out) if self._act else out


class _InstanceNorm(Layer):
    _formats: tuple[str, ...] = ()

    def __init__(
        self,
        num_features: int,
        epsilon: float = 1e-5,
        momentum: float = 0.9,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._num_features = num_features
        self._epsilon = epsilon
        self._momentum = momentum
        self._data_format = data_format or self._formats[0]
        attr = False if weight_attr is False or bias_attr is False else weight_attr
        one = Constant(1.0)
        self.scale = self.create_parameter([num_features], attr, default_initializer=one)
        bias = False if attr is False else bias_attr
        self.bias = self.create_parameter([num_features], bias, is_bias=True)

    def forward(self, input: Tensor) -> Tensor:
        return F.instance_norm(
            input,
            weight=self.scale,
            bias=self.bias,
            momentum=self._momentum,
            eps=self._epsilon,
            data_format=self._data_format,
        )

    def extra_repr(self) -> str:
        return f"num_features={self._num_features}, epsilon={self._epsilon}"


class InstanceNorm1D(_InstanceNorm):
    """Mean 0 and variance 1 of each channel of each sequence.

    >>> x = paddle.to_tensor([[[1.0, 3.0]]])
    >>> print(paddle.nn.InstanceNorm1D(1)(x).numpy().round(3).ravel())
    [-1.  1.]
    """

    _formats = ("NCL",)


class InstanceNorm2D(_InstanceNorm):
    """Mean 0 and variance 1 of each channel of each picture.

    >>> x = paddle.to_tensor([[[[1.0, 3.0]]]])
    >>> print(paddle.nn.InstanceNorm2D(1)(x).numpy().round(3).ravel())
    [-1.  1.]
    """

    _formats = ("NCHW",)


class GroupNorm(Layer):
    """Mean 0 and variance 1 of each group of channels of each sample.

    >>> x = paddle.arange(4.0).reshape([1, 4, 1])
    >>> print(paddle.nn.GroupNorm(2, 4)(x).numpy().round(3).ravel())
    [-1.  1. -1.  1.]
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        epsilon: float = 1e-5,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._num_groups = num_groups
        self._num_channels = num_channels
        self._epsilon = epsilon
        self._data_format = data_format
        one = Constant(1.0)
        self.weight = self.create_parameter([num_channels], weight_attr, default_initializer=one)
        self.bias = self.create_parameter([num_channels], bias_attr, is_bias=True)

    def forward(self, input: Tensor) -> Tensor:
        settings = (self._num_groups, self._epsilon, self.weight, self.bias, self._data_format)
        return F.group_norm(input, *settings)

    def extra_repr(self) -> str:
        numbers = f"num_groups={self._num_groups}, num_channels={self._num_channels}"
        return f"{numbers}, epsilon={self._epsilon}"


class LocalResponseNorm(Layer):
    """Each element over a mean of the squares of neighbouring channels.

    >>> print(paddle.nn.LocalResponseNorm(3)(paddle.ones([1, 4, 1])).numpy().round(4).ravel())
    [1.     0.9999 0.9999 1.    ]
    """

    def __init__(
        self,
        size: int,
        alpha: float = 0.0001,
        beta: float = 0.75,
        k: float = 1.0,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._settings = (size, alpha, beta, k, data_format)

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, *self._settings)


set_public_names(__name__)
