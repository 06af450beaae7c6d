"""Numbers: normal and uniform."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..tensor.arguments import TENSORS, Tensor, as_tensor, int_list, matched_shape, ops
from .distribution import Distribution


def _pair(first: Any, second: Any) -> tuple[Tensor, Tensor]:
    """Two parameters as tensors of one shape."""
    a, b = (
        v if isinstance(v, TENSORS) else as_tensor(np.asarray(v, "float32"))
        for v in (first, second)
    )
    shape = matched_shape(a.shape, b.shape)
    a, b = (v if list(v.shape) == shape else ops.expand_v2(v, shape=shape) for v in (a, b))
    return a, b


class Normal(Distribution):
    """The normal distribution, by mean and standard deviation.

    >>> normal = paddle.distribution.Normal(0.0, 1.0)
    >>> round(normal.log_prob(paddle.to_tensor(0.0)).item(), 4)
    -0.9189
    """

    def __init__(self, loc: Any, scale: Any, name: str | None = None) -> None:
        self.loc, self.scale = _pair(loc, scale)
        self.name = name or "Normal"
        super().__init__(tuple(self.loc.shape))

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return ops.square(self.scale)

    def sample(self, shape: Any = (), seed: int = 0) -> Tensor:
        """Numbers drawn at random, of shape `shape` + that of the parameters."""
        return self.rsample(shape, seed).detach()

    def rsample(self, shape: Any = (), seed: int = 0) -> Tensor:
        """As `sample`, and gradients reach mean and deviation."""
        full = [*int_list(shape), *self._batch_shape]
        noise = ops.gaussian_random(shape=full, dtype=self.loc.dtype, seed=seed)
        return noise * self.scale + self.loc

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        apart = (value - self.loc) / self.scale
        return ops.square(apart) * -0.5 - ops.log(self.scale) - 0.5 * math.log(2 * math.pi)

    def entropy(self) -> Tensor:
        """The entropy."""
        return ops.log(self.scale) + (0.5 + 0.5 * math.log(2 * math.pi))

    def kl_divergence(self, other: Distribution) -> Tensor:
        """The divergence from another normal distribution."""
        if not isinstance(other, Normal):
            raise TypeError(f"the other must be `Normal`, but is `{type(other).__name__}`")
        ratio = ops.square(self.scale / other.scale)
        apart = ops.square((self.loc - other.loc) / other.scale)
        return (ratio + apart - 1.0 - ops.log(ratio)) * 0.5


class Uniform(Distribution):
    """Evenly spread over [low, high).

    >>> uniform = paddle.distribution.Uniform(0.0, 2.0)
    >>> uniform.probs(paddle.to_tensor(1.0)).item()
    0.5
    """

    def __init__(self, low: Any, high: Any, name: str | None = None) -> None:
        self.low, self.high = _pair(low, high)
        self.name = name or "Uniform"
        super().__init__(tuple(self.low.shape))

    def sample(self, shape: Any = (), seed: int = 0) -> Tensor:
        """Numbers drawn at random, of shape `shape` + that of the parameters."""
        full = [*int_list(shape), *self._batch_shape]
        noise = ops.uniform_random(shape=full, dtype=self.low.dtype, min=0.0, max=1.0, seed=seed)
        return (noise * (self.high - self.low) + self.low).detach()

    def prob(self, value: Tensor) -> Tensor:
        """The density."""
        inside = ops.logical_and(value > self.low, value < self.high)
        return ops.cast(inside, in_dtype="bool", out_dtype=self.low.dtype) / (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        return ops.log(self.prob(value))

    def entropy(self) -> Tensor:
        """The entropy."""
        return ops.log(self.high - self.low)
