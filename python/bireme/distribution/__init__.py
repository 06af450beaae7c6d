"""Probability distributions: `paddle.distribution`."""

from .categorical import Categorical
from .continuous import Normal, Uniform
from .distribution import Distribution

__all__ = ["Categorical", "Distribution", "Normal", "Uniform"]
