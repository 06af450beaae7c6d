"""First values of parameters under their 1.x names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._missing import missing_names
from ..nn import initializer as _initializer
from ..nn.initializer import Initializer


class ConstantInitializer(_initializer.Constant):
    """Every element is `value`; `force_cpu` has no meaning here.

    >>> value = paddle.fluid.initializer.Constant(0.5)
    >>> w = paddle.create_parameter([2], "float32", default_initializer=value)
    >>> w.tolist()
    [0.5, 0.5]
    """

    def __init__(self, value: float = 0.0, force_cpu: bool = False) -> None:
        super().__init__(value)


class UniformInitializer(Initializer):
    """Evenly spread over [low, high).

    >>> value = paddle.fluid.initializer.Uniform(-0.1, 0.1)
    >>> w = paddle.create_parameter([1000], "float32", default_initializer=value)
    >>> -0.1 <= w.min().item() < -0.09, 0.09 < w.max().item() <= 0.1
    (True, True)
    """

    def __init__(
        self,
        low: float = -1.0,
        high: float = 1.0,
        seed: int = 0,
        diag_num: int = 0,
        diag_step: int = 0,
        diag_val: float = 1.0,
    ) -> None:
        if diag_num:
            raise NotImplementedError("`diag_num` is not in this version")
        if high < low:
            raise ValueError(f"`high` must not be under `low`, but they are {high} and {low}")
        self.low, self.high, self.seed = float(low), float(high), seed

    def _spec(self, shape: Sequence[int]) -> tuple[str, dict[str, Any]]:
        return "uniform", {"low": self.low, "high": self.high, "seed": self.seed}


class NormalInitializer(Initializer):
    """Normally distributed around `loc`, as wide as `scale`.

    >>> value = paddle.fluid.initializer.Normal(0.0, 0.01)
    >>> w = paddle.create_parameter([10000], "float32", default_initializer=value)
    >>> round(w.std().item(), 3)
    0.01
    """

    _kind = "normal"

    def __init__(self, loc: float = 0.0, scale: float = 1.0, seed: int = 0) -> None:
        self.loc, self.scale, self.seed = float(loc), float(scale), seed

    def _spec(self, shape: Sequence[int]) -> tuple[str, dict[str, Any]]:
        return self._kind, {"mean": self.loc, "std": self.scale, "seed": self.seed}


class TruncatedNormalInitializer(NormalInitializer):
    """Normally distributed, with values beyond two standard deviations drawn again.

    >>> value = paddle.fluid.initializer.TruncatedNormal(0.0, 0.01)
    >>> w = paddle.create_parameter([10000], "float32", default_initializer=value)
    >>> w.abs().max().item() <= 0.02
    True
    """

    _kind = "truncated_normal"


class XavierInitializer(Initializer):
    """As wide as the numbers of inputs and outputs ask for, uniform or normal.

    >>> value = paddle.fluid.initializer.Xavier(uniform=False)
    >>> w = paddle.create_parameter([100, 100], "float32", default_initializer=value)
    >>> round(w.std().item(), 2)
    0.1
    """

    def __init__(
        self,
        uniform: bool = True,
        fan_in: float | None = None,
        fan_out: float | None = None,
        seed: int = 0,
    ) -> None:
        kind = _initializer.XavierUniform if uniform else _initializer.XavierNormal
        self._like: _initializer.Initializer = kind(fan_in, fan_out)
        self.seed = seed

    def _spec(self, shape: Sequence[int]) -> tuple[str, dict[str, Any]]:
        kind, numbers = self._like._spec(shape)
        return kind, {**numbers, "seed": self.seed}


class MSRAInitializer(XavierInitializer):
    """As wide as the number of inputs asks for, uniform or normal.

    >>> value = paddle.fluid.initializer.MSRA(uniform=False)
    >>> w = paddle.create_parameter([200, 100], "float32", default_initializer=value)
    >>> round(w.std().item(), 2)
    0.1
    """

    def __init__(self, uniform: bool = True, fan_in: float | None = None, seed: int = 0) -> None:
        kind = _initializer.KaimingUniform if uniform else _initializer.KaimingNormal
        self._like, self.seed = kind(fan_in), seed


class NumpyArrayInitializer(_initializer.Assign):
    """The values of an array.

    >>> import numpy as np
    >>> value = paddle.fluid.initializer.NumpyArrayInitializer(np.float32([1, 2]))
    >>> paddle.create_parameter([2], "float32", default_initializer=value).tolist()
    [1.0, 2.0]
    """

    def __init__(self, value: np.ndarray) -> None:
        if not isinstance(value, np.ndarray):
            raise TypeError(f"`value` must be a numpy array, not {type(value).__name__}")
        super().__init__(value)


Constant = ConstantInitializer
Uniform = UniformInitializer
Normal = NormalInitializer
TruncatedNormal = TruncatedNormalInitializer
Xavier = XavierInitializer
MSRA = MSRAInitializer

__getattr__ = missing_names(__name__)
