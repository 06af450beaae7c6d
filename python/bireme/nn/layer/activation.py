"""Activations as layers."""

from __future__ import annotations

from typing import Any

from ..._names import set_public_names
from ...tensor.arguments import Tensor
from .. import functional as F
from ..initializer import Constant
from .function_layer import FunctionLayer
from .layers import Layer


class ReLU(FunctionLayer, of=F.relu):
    """max(x, 0) of each element.

    >>> print(paddle.nn.ReLU()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [0. 2.]
    """


class ReLU6(FunctionLayer, of=F.relu6):
    """min(max(x, 0), 6) of each element.

    >>> print(paddle.nn.ReLU6()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [0. 2.]
    """


class ELU(FunctionLayer, of=F.elu):
    """x over 0, `alpha * (exp(x) - 1)` under it.

    >>> print(paddle.nn.ELU()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-0.6321  2.    ]
    """


class CELU(FunctionLayer, of=F.celu):
    """x over 0, `alpha * (exp(x / alpha) - 1)` under it.

    >>> print(paddle.nn.CELU()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-0.6321  2.    ]
    """


class SELU(FunctionLayer, of=F.selu):
    """Self-normalising exponential units.

    >>> print(paddle.nn.SELU()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-1.1113  2.1014]
    """


class GELU(FunctionLayer, of=F.gelu):
    """x times the share of a normal distribution under it.

    >>> print(paddle.nn.GELU()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-0.1587  1.9545]
    """


class Sigmoid(FunctionLayer, of=F.sigmoid):
    """1 / (1 + exp(-x)) of each element.

    >>> print(paddle.nn.Sigmoid()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [0.2689 0.8808]
    """


class Tanh(FunctionLayer, of=F.tanh):
    """The hyperbolic tangent of each element.

    >>> print(paddle.nn.Tanh()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-0.7616  0.964 ]
    """


class Silu(FunctionLayer, of=F.silu):
    """x * sigmoid(x) of each element.

    >>> print(paddle.nn.Silu()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-0.2689  1.7616]
    """


class Swish(FunctionLayer, of=F.swish):
    """x * sigmoid(x) of each element.

    >>> print(paddle.nn.Swish()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-0.2689  1.7616]
    """


class Mish(FunctionLayer, of=F.mish):
    """x * tanh(softplus(x)) of each element.

    >>> print(paddle.nn.Mish()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-0.3034  1.944 ]
    """


class Softplus(FunctionLayer, of=F.softplus):
    """log(1 + exp(beta * x)) / beta of each element.

    >>> print(paddle.nn.Softplus()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [0.3133 2.1269]
    """


class Softsign(FunctionLayer, of=F.softsign):
    """x / (1 + abs(x)) of each element.

    >>> print(paddle.nn.Softsign()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-0.5     0.6667]
    """


class Softshrink(FunctionLayer, of=F.softshrink):
    """x drawn towards 0 by the threshold.

    >>> print(paddle.nn.Softshrink()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-0.5  1.5]
    """


class Hardshrink(FunctionLayer, of=F.hardshrink):
    """x, but 0 within the threshold.

    >>> print(paddle.nn.Hardshrink()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-1.  2.]
    """


class Tanhshrink(FunctionLayer, of=F.tanhshrink):
    """x - tanh(x) of each element.

    >>> print(paddle.nn.Tanhshrink()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-0.2384  1.036 ]
    """


class ThresholdedReLU(FunctionLayer, of=F.thresholded_relu):
    """x over the threshold, else 0.

    >>> print(paddle.nn.ThresholdedReLU()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [0. 2.]
    """


class Hardsigmoid(FunctionLayer, of=F.hardsigmoid, settings="name"):
    """A line in place of the sigmoid, limited to [0, 1].

    >>> print(paddle.nn.Hardsigmoid()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [0.3333 0.8333]
    """


class Hardswish(FunctionLayer, of=F.hardswish):
    """x * min(max(x + 3, 0), 6) / 6 of each element.

    >>> print(paddle.nn.Hardswish()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-0.3333  1.6667]
    """


class Hardtanh(FunctionLayer, of=F.hardtanh):
    """x limited to [min, max].

    >>> print(paddle.nn.Hardtanh()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-1.  1.]
    """


class LeakyReLU(FunctionLayer, of=F.leaky_relu):
    """x over 0, `negative_slope * x` under it.

    >>> print(paddle.nn.LeakyReLU()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-0.01  2.  ]
    """


class LogSigmoid(FunctionLayer, of=F.log_sigmoid):
    """log(sigmoid(x)) of each element.

    >>> print(paddle.nn.LogSigmoid()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-1.3133 -0.1269]
    """


class Softmax(FunctionLayer, of=F.softmax, settings="axis name"):
    """exp(x) as shares of their sum along an axis.

    >>> print(paddle.nn.Softmax()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [0.0474 0.9526]
    """


class LogSoftmax(FunctionLayer, of=F.log_softmax, settings="axis name"):
    """log(softmax(x)) along an axis.

    >>> print(paddle.nn.LogSoftmax()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-3.0486 -0.0486]
    """


class GLU(FunctionLayer, of=F.glu):
    """The first half times the sigmoid of the second.

    >>> print(paddle.nn.GLU()(paddle.to_tensor([[1.0, 0.0]])).numpy().round(4))
    [[0.5]]
    """


class Maxout(FunctionLayer, of=F.maxout):
    """The greatest of each group of neighbouring channels.

    >>> paddle.nn.Maxout(2)(paddle.to_tensor([[[[1.0]], [[3.0]]]])).tolist()
    [[[[3.0]]]]
    """


class Softmax2D(Layer):
    """Shares over the channels of pictures.

    >>> paddle.nn.Softmax2D()(paddle.zeros([1, 2, 1, 1])).tolist()
    [[[[0.5]], [[0.5]]]]
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim not in (3, 4):
            raise AssertionError(f"`Softmax2D` takes 3 or 4 axes, but the input has {x.ndim}")
        return F.softmax(x, -3)


class RReLU(Layer):
    """x over 0, x times a random slope under it; the mean slope outside of training.

    >>> paddle.nn.RReLU(0.5, 0.5)(paddle.to_tensor([-4.0])).tolist()
    [-2.0]
    """

    def __init__(
        self, lower: float = 1.0 / 8.0, upper: float = 1.0 / 3.0, name: str | None = None
    ) -> None:
        super().__init__()
        self._lower = lower
        self._upper = upper

    def forward(self, x: Tensor) -> Tensor:
        return F.rrelu(x, self._lower, self._upper, self.training)

    def extra_repr(self) -> str:
        return f"lower={self._lower}, upper={self._upper}, training={self.training}"


class PReLU(Layer):
    """x over 0, x times a slope that is learned under it: one slope, or one for each channel.

    >>> paddle.nn.PReLU()(paddle.to_tensor([-4.0, 1.0])).tolist()
    [-1.0, 1.0]
    """

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        weight_attr: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._num_parameters = num_parameters
        self._data_format = data_format
        self._init = init
        self._weight = self.create_parameter(
            [num_parameters], weight_attr, default_initializer=Constant(init)
        )

    def forward(self, x: Tensor) -> Tensor:
        return F.prelu(x, self._weight, self._data_format)

    def extra_repr(self) -> str:
        return (
            f"num_parameters={self._num_parameters}, data_format={self._data_format}, "
            f"init={self._init}, dtype={self._dtype}"
        )


set_public_names(__name__)
