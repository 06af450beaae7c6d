"""Activations as layers."""

from __future__ import annotations

from typing import Any

from ..._names import public_names
from ...tensor.arguments import Tensor
from .. import functional as F
from ..initializer import Constant
from .layers import Layer


class ReLU(Layer):
    """max(x, 0) of each element.

    >>> print(paddle.nn.ReLU()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [0. 2.]
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x)


class ReLU6(Layer):
    """min(max(x, 0), 6) of each element.

    >>> print(paddle.nn.ReLU6()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [0. 2.]
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return F.relu6(x)


class ELU(Layer):
    """x over 0, `alpha * (exp(x) - 1)` under it.

    >>> print(paddle.nn.ELU()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-0.6321  2.    ]
    """

    def __init__(self, alpha: float = 1.0, name: str | None = None) -> None:
        super().__init__()
        self._alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        return F.elu(x, self._alpha)

    def extra_repr(self) -> str:
        return f"alpha={self._alpha}"


class CELU(Layer):
    """x over 0, `alpha * (exp(x / alpha) - 1)` under it.

    >>> print(paddle.nn.CELU()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-0.6321  2.    ]
    """

    def __init__(self, alpha: float = 1.0, name: str | None = None) -> None:
        super().__init__()
        self._alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        return F.celu(x, self._alpha)

    def extra_repr(self) -> str:
        return f"alpha={self._alpha}"


class SELU(Layer):
    """Self-normalising exponential units.

    >>> print(paddle.nn.SELU()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-1.1113  2.1014]
    """

    def __init__(
        self,
        scale: float = 1.0507009873554804934193349852946,
        alpha: float = 1.6732632423543772848170429916717,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._scale = scale
        self._alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        return F.selu(x, self._scale, self._alpha)

    def extra_repr(self) -> str:
        return f"scale={self._scale}, alpha={self._alpha}"


class GELU(Layer):
    """x times the share of a normal distribution under it.

    >>> print(paddle.nn.GELU()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-0.1587  1.9545]
    """

    def __init__(self, approximate: bool = False, name: str | None = None) -> None:
        super().__init__()
        self._approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(x, self._approximate)

    def extra_repr(self) -> str:
        return f"approximate={self._approximate}"


class Sigmoid(Layer):
    """1 / (1 + exp(-x)) of each element.

    >>> print(paddle.nn.Sigmoid()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [0.2689 0.8808]
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return F.sigmoid(x)


class Tanh(Layer):
    """The hyperbolic tangent of each element.

    >>> print(paddle.nn.Tanh()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-0.7616  0.964 ]
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return F.tanh(x)


class Silu(Layer):
    """x * sigmoid(x) of each element.

    >>> print(paddle.nn.Silu()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-0.2689  1.7616]
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return F.silu(x)


class Swish(Layer):
    """x * sigmoid(x) of each element.

    >>> print(paddle.nn.Swish()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-0.2689  1.7616]
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return F.swish(x)


class Mish(Layer):
    """x * tanh(softplus(x)) of each element.

    >>> print(paddle.nn.Mish()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-0.3034  1.944 ]
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return F.mish(x)


class Softplus(Layer):
    """log(1 + exp(beta * x)) / beta of each element.

    >>> print(paddle.nn.Softplus()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [0.3133 2.1269]
    """

    def __init__(self, beta: float = 1, threshold: float = 20, name: str | None = None) -> None:
        super().__init__()
        self._beta = beta
        self._threshold = threshold

    def forward(self, x: Tensor) -> Tensor:
        return F.softplus(x, self._beta, self._threshold)

    def extra_repr(self) -> str:
        return f"beta={self._beta}, threshold={self._threshold}"


class Softsign(Layer):
    """x / (1 + abs(x)) of each element.

    >>> print(paddle.nn.Softsign()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-0.5     0.6667]
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return F.softsign(x)


class Softshrink(Layer):
    """x drawn towards 0 by the threshold.

    >>> print(paddle.nn.Softshrink()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-0.5  1.5]
    """

    def __init__(self, threshold: float = 0.5, name: str | None = None) -> None:
        super().__init__()
        self._threshold = threshold

    def forward(self, x: Tensor) -> Tensor:
        return F.softshrink(x, self._threshold)

    def extra_repr(self) -> str:
        return f"threshold={self._threshold}"


class Hardshrink(Layer):
    """x, but 0 within the threshold.

    >>> print(paddle.nn.Hardshrink()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-1.  2.]
    """

    def __init__(self, threshold: float = 0.5, name: str | None = None) -> None:
        super().__init__()
        self._threshold = threshold

    def forward(self, x: Tensor) -> Tensor:
        return F.hardshrink(x, self._threshold)

    def extra_repr(self) -> str:
        return f"threshold={self._threshold}"


class Tanhshrink(Layer):
    """x - tanh(x) of each element.

    >>> print(paddle.nn.Tanhshrink()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-0.2384  1.036 ]
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return F.tanhshrink(x)


class ThresholdedReLU(Layer):
    """x over the threshold, else 0.

    >>> print(paddle.nn.ThresholdedReLU()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [0. 2.]
    """

    def __init__(self, threshold: float = 1.0, name: str | None = None) -> None:
        super().__init__()
        self._threshold = threshold

    def forward(self, x: Tensor) -> Tensor:
        return F.thresholded_relu(x, self._threshold)

    def extra_repr(self) -> str:
        return f"threshold={self._threshold}"


class Hardsigmoid(Layer):
    """A line in place of the sigmoid, limited to [0, 1].

    >>> print(paddle.nn.Hardsigmoid()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [0.3333 0.8333]
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return F.hardsigmoid(x)


class Hardswish(Layer):
    """x * min(max(x + 3, 0), 6) / 6 of each element.

    >>> print(paddle.nn.Hardswish()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-0.3333  1.6667]
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return F.hardswish(x)


class Hardtanh(Layer):
    """x limited to [min, max].

    >>> print(paddle.nn.Hardtanh()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-1.  1.]
    """

    def __init__(self, min: float = -1.0, max: float = 1.0, name: str | None = None) -> None:
        super().__init__()
        self._min = min
        self._max = max

    def forward(self, x: Tensor) -> Tensor:
        return F.hardtanh(x, self._min, self._max)

    def extra_repr(self) -> str:
        return f"min={self._min}, max={self._max}"


class LeakyReLU(Layer):
    """x over 0, `negative_slope * x` under it.

    >>> print(paddle.nn.LeakyReLU()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-0.01  2.  ]
    """

    def __init__(self, negative_slope: float = 0.01, name: str | None = None) -> None:
        super().__init__()
        self._negative_slope = negative_slope

    def forward(self, x: Tensor) -> Tensor:
        return F.leaky_relu(x, self._negative_slope)

    def extra_repr(self) -> str:
        return f"negative_slope={self._negative_slope}"


class LogSigmoid(Layer):
    """log(sigmoid(x)) of each element.

    >>> print(paddle.nn.LogSigmoid()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-1.3133 -0.1269]
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return F.log_sigmoid(x)


class Softmax(Layer):
    """exp(x) as shares of their sum along an axis.

    >>> print(paddle.nn.Softmax()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [0.0474 0.9526]
    """

    def __init__(self, axis: int = -1, name: str | None = None) -> None:
        super().__init__()
        self._axis = axis

    def forward(self, x: Tensor) -> Tensor:
        return F.softmax(x, self._axis)

    def extra_repr(self) -> str:
        return f"axis={self._axis}"


class LogSoftmax(Layer):
    """log(softmax(x)) along an axis.

    >>> print(paddle.nn.LogSoftmax()(paddle.to_tensor([-1.0, 2.0])).numpy().round(4))
    [-3.0486 -0.0486]
    """

    def __init__(self, axis: int = -1, name: str | None = None) -> None:
        super().__init__()
        self._axis = axis

    def forward(self, x: Tensor) -> Tensor:
        return F.log_softmax(x, self._axis)

    def extra_repr(self) -> str:
        return f"axis={self._axis}"


class GLU(Layer):
    """The first half times the sigmoid of the second.

    >>> print(paddle.nn.GLU()(paddle.to_tensor([[1.0, 0.0]])).numpy().round(4))
    [[0.5]]
    """

    def __init__(self, axis: int = -1, name: str | None = None) -> None:
        super().__init__()
        self._axis = axis

    def forward(self, x: Tensor) -> Tensor:
        return F.glu(x, self._axis)

    def extra_repr(self) -> str:
        return f"axis={self._axis}"


class Maxout(Layer):
    """The greatest of each group of neighbouring channels.

    >>> paddle.nn.Maxout(2)(paddle.to_tensor([[[[1.0]], [[3.0]]]])).tolist()
    [[[[3.0]]]]
    """

    def __init__(self, groups: int, axis: int = 1, name: str | None = None) -> None:
        super().__init__()
        self._groups = groups
        self._axis = axis

    def forward(self, x: Tensor) -> Tensor:
        return F.maxout(x, self._groups, self._axis)

    def extra_repr(self) -> str:
        return f"groups={self._groups}, axis={self._axis}"


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


__all__ = public_names(__name__)
