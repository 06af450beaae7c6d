"""The strategy, where Paddle keeps it."""

from ...._missing import missing_names
from ..strategy import DistributedStrategy

__all__ = ["DistributedStrategy"]

__getattr__ = missing_names(__name__)
