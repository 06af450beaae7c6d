"""Probability distributions: `paddle.distribution`."""

from .._missing import missing_names
from .categorical import Categorical
from .continuous import Normal, Uniform
from .distribution import Distribution

__all__ = ["Categorical", "Distribution", "Normal", "Uniform"]

__getattr__ = missing_names(__name__)
