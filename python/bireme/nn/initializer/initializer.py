"""Initialisers: each is a description that the engine fills a parameter by.

`_spec(shape)` is the description as the engine wants it: a kind and its numbers. Calling an
initialiser with an existing parameter fills it again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import _core
from ..._names import set_public_names


class Initializer:
    """Base class of initialisers; subclasses define `_spec`."""

    def _spec(self, shape: Sequence[int]) -> tuple[str, dict[str, Any]]:
        """The kind and the numbers of this initialiser for a parameter of `shape`."""
        raise NotImplementedError(f"`{type(self).__name__}` must define `_spec()`")

    def __call__(self, param: Any, block: Any = None) -> Any:
        """Fills an existing eager parameter, and returns it; `block` is always the current one."""
        if not isinstance(param, _core.Tensor):
            raise TypeError(
                "an initialiser fills eager parameters only: give it to `ParamAttr(initializer=)`"
            )
        shape = list(param.shape)
        name = _core.unique_name("initializer_value")
        filled = _core.create_parameter(shape, param.dtype, name, self._spec(shape))
        param.set_value(filled)
        return param


class Constant(Initializer):
    """Every element is `value`.

    >>> attr = paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(2.0))
    >>> paddle.nn.Linear(1, 2, weight_attr=attr).weight.tolist()
    [[2.0, 2.0]]
    """

    def __init__(self, value: float = 0.0) -> None:
        if not isinstance(value, (int, float, np.number)):
            raise TypeError(f"`Constant` needs a number, but got `{type(value).__name__}`")
        self.value = float(value)

    def _spec(self, shape: Sequence[int]) -> tuple[str, dict[str, Any]]:
        return "constant", {"value": self.value}


class Uniform(Initializer):
    """Evenly spread over [low, high).

    >>> w = paddle.nn.initializer.Uniform(-0.1, 0.1)(paddle.nn.Linear(100, 100).weight)
    >>> round(w.min().item(), 2), round(w.max().item(), 2)
    (-0.1, 0.1)
    """

    def __init__(self, low: float = -1.0, high: float = 1.0, name: str | None = None) -> None:
        if low is None or high is None or high < low:
            raise ValueError(f"`high` must not be under `low`, but they are {high} and {low}")
        self.low, self.high = float(low), float(high)

    def _spec(self, shape: Sequence[int]) -> tuple[str, dict[str, Any]]:
        return "uniform", {"low": self.low, "high": self.high, "seed": 0}


class Normal(Initializer):
    """Normally distributed.

    >>> w = paddle.nn.initializer.Normal(0.0, 0.01)(paddle.nn.Linear(100, 100).weight)
    >>> round(w.std().item(), 3)
    0.01
    """

    def __init__(self, mean: float = 0.0, std: float = 1.0, name: str | None = None) -> None:
        if mean is None or std is None:
            raise ValueError("`mean` and `std` must be numbers")
        self.mean, self.std = float(mean), float(std)

    def _spec(self, shape: Sequence[int]) -> tuple[str, dict[str, Any]]:
        return "normal", {"mean": self.mean, "std": self.std, "seed": 0}


class TruncatedNormal(Normal):
    """Normally distributed, with values over two standard deviations drawn again.

    >>> w = paddle.nn.initializer.TruncatedNormal(std=0.01)(paddle.nn.Linear(100, 100).weight)
    >>> w.abs().max().item() <= 0.02
    True
    """

    def _spec(self, shape: Sequence[int]) -> tuple[str, dict[str, Any]]:
        return "truncated_normal", {"mean": self.mean, "std": self.std, "seed": 0}


class _Xavier(Initializer):
    _uniform = True

    def __init__(
        self, fan_in: float | None = None, fan_out: float | None = None, name: str | None = None
    ) -> None:
        self.fan_in, self.fan_out = fan_in, fan_out

    def _spec(self, shape: Sequence[int]) -> tuple[str, dict[str, Any]]:
        fan_in, fan_out = _fans(shape)
        given_in = fan_in if self.fan_in is None else self.fan_in
        given_out = fan_out if self.fan_out is None else self.fan_out
        numbers = {"fan_in": float(given_in), "fan_out": float(given_out), "seed": 0}
        return "xavier", {"uniform": self._uniform, **numbers}


class XavierUniform(_Xavier):
    """Uniform, as wide as the numbers of inputs and outputs ask for (Glorot and Bengio).

    >>> w = paddle.nn.initializer.XavierUniform()(paddle.nn.Linear(100, 100).weight)
    >>> round(w.max().item(), 2)  # the root of 6 / (100 + 100)
    0.17
    """


class XavierNormal(_Xavier):
    """Normal, as wide as the numbers of inputs and outputs ask for (Glorot and Bengio).

    >>> w = paddle.nn.initializer.XavierNormal()(paddle.nn.Linear(100, 100).weight)
    >>> round(w.std().item(), 2)  # the root of 2 / (100 + 100)
    0.1
    """

    _uniform = False


class _Kaiming(Initializer):
    _uniform = True

    def __init__(
        self,
        fan_in: float | None = None,
        negative_slope: float = 0.0,
        nonlinearity: str = "relu",
    ) -> None:
        self.fan_in = fan_in
        self.negative_slope = negative_slope
        self.nonlinearity = nonlinearity

    def _spec(self, shape: Sequence[int]) -> tuple[str, dict[str, Any]]:
        fan_in = float(self.fan_in or _fans(shape)[0])
        slope = 0.0 if self.nonlinearity == "relu" else self.negative_slope
        if self.nonlinearity in ("relu", "leaky_relu"):
            numbers = {"fan_in": fan_in, "negative_slope": float(slope), "seed": 0}
            return "msra", {"uniform": self._uniform, **numbers}
        spread = calculate_gain(self.nonlinearity, self.negative_slope) / math.sqrt(fan_in)
        if self._uniform:
            limit = math.sqrt(3.0) * spread
            return "uniform", {"low": -limit, "high": limit, "seed": 0}
        return "normal", {"mean": 0.0, "std": spread, "seed": 0}


class KaimingUniform(_Kaiming):
    """Uniform, as wide as the number of inputs asks for (He et al.).

    >>> w = paddle.nn.initializer.KaimingUniform()(paddle.nn.Linear(100, 100).weight)
    >>> round(w.max().item(), 2)  # the root of 6 / 100
    0.24
    """


class KaimingNormal(_Kaiming):
    """Normal, as wide as the number of inputs asks for (He et al.).

    >>> w = paddle.nn.initializer.KaimingNormal()(paddle.nn.Linear(100, 100).weight)
    >>> round(w.std().item(), 2)  # the root of 2 / 100
    0.14
    """

    _uniform = False


class Assign(Initializer):
    """The given values: an array, a list or a tensor.

    >>> attr = paddle.ParamAttr(initializer=paddle.nn.initializer.Assign([[1.0], [2.0]]))
    >>> paddle.nn.Linear(2, 1, weight_attr=attr).weight.tolist()
    [[1.0], [2.0]]
    """

    def __init__(self, value: Any, name: str | None = None) -> None:
        if not isinstance(value, (np.ndarray, list, tuple, _core.Tensor)):
            raise TypeError(
                f"`Assign` needs an array, a list or a tensor, but got `{type(value).__name__}`"
            )
        array = value.numpy() if isinstance(value, _core.Tensor) else np.asarray(value)
        self._value = array.astype("float32") if array.dtype == np.float64 else array

    def _spec(self, shape: Sequence[int]) -> tuple[str, dict[str, Any]]:
        if self._value.size != math.prod(shape):
            raise ValueError(
                f"`Assign` has a value of shape {list(self._value.shape)}, "
                f"but the parameter has shape {list(shape)}"
            )
        return "assign", {"value": self._value.reshape(shape)}


class Orthogonal(Initializer):
    """Rows (or columns, whichever are fewer) orthogonal to each other, of length `gain`.

    >>> weight = paddle.nn.initializer.Orthogonal()(paddle.nn.Linear(2, 2).weight)
    >>> bool((weight @ weight.T - paddle.eye(2)).abs().max() < 1e-5)
    True
    """

    def __init__(self, gain: float = 1.0, name: str | None = None) -> None:
        self._gain = 1.0 if gain is None else float(gain)

    def _spec(self, shape: Sequence[int]) -> tuple[str, dict[str, Any]]:
        if len(shape) < 2:
            raise AssertionError(
                f"`Orthogonal` needs two dimensions or more, but got {list(shape)}"
            )
        rows, columns = shape[0], math.prod(shape[1:])
        name = _core.unique_name("initializer_value")
        flat = [max(rows, columns), min(rows, columns)]
        normal = ("normal", {"mean": 0.0, "std": 1.0, "seed": 0})
        q, r = np.linalg.qr(np.asarray(_eager_parameter(flat, name, normal)))
        q *= np.sign(np.diag(r))
        value = self._gain * (q if rows >= columns else q.T)
        return "assign", {"value": value.reshape(shape).astype("float32")}


def _eager_parameter(shape: list[int], name: str, spec: tuple[str, dict[str, Any]]) -> Any:
    """A parameter with values now, whatever the mode."""
    if _core.in_dynamic_mode():
        return _core.create_parameter(shape, "float32", name, spec)
    _core.disable_static()
    try:
        return _core.create_parameter(shape, "float32", name, spec)
    finally:
        _core.enable_static()


def _fans(shape: Sequence[int]) -> tuple[int, int]:
    """How many inputs and outputs an element of a weight of `shape` takes part in."""
    if not shape:
        return 1, 1
    if len(shape) == 1:
        return shape[0], shape[0]
    if len(shape) == 2:
        return shape[0], shape[1]
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """By how much a layer should spread its weights for the activation that follows it.

    >>> paddle.nn.initializer.calculate_gain("sigmoid")
    1
    """
    if param is None:
        param = 0.01
    gains: dict[str, float] = {
        "sigmoid": 1,
        "linear": 1,
        "conv1d": 1,
        "conv2d": 1,
        "conv3d": 1,
        "conv1d_transpose": 1,
        "conv2d_transpose": 1,
        "conv3d_transpose": 1,
        "tanh": 5.0 / 3,
        "relu": math.sqrt(2.0),
        "leaky_relu": math.sqrt(2.0 / (1 + float(param) ** 2)),
        "selu": 3.0 / 4,
    }
    if nonlinearity not in gains:
        raise ValueError(f"`nonlinearity` must be one of {sorted(gains)}, but is {nonlinearity!r}")
    return gains[nonlinearity]


#: The initialisers of parameters that have none of their own, for weights and for biases.
_defaults: dict[str, Initializer | None] = {"weight": None, "bias": None}


def set_global_initializer(
    weight_init: Initializer | None, bias_init: Initializer | None = None
) -> None:
    """Sets the initialisers of all parameters made from now on without one; None undoes it.

    >>> paddle.nn.initializer.set_global_initializer(paddle.nn.initializer.Constant(3.0))
    >>> paddle.nn.Linear(1, 1).weight.tolist()
    [[3.0]]
    >>> paddle.nn.initializer.set_global_initializer(None)
    """
    for given, what in ((weight_init, "weight_init"), (bias_init, "bias_init")):
        if given is not None and not isinstance(given, Initializer):
            raise TypeError(f"`{what}` must be an initialiser, but is `{type(given).__name__}`")
    _defaults["weight"], _defaults["bias"] = weight_init, bias_init


set_public_names(__name__)
