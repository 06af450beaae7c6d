"""What Paddle 1.x kept apart until it was settled: the first `fleet`."""

from ..._missing import missing_names
from . import fleet

__all__ = ["fleet"]

__getattr__ = missing_names(__name__)
