"""What Paddle keeps apart until it is settled."""

from .._missing import missing_names
from . import distributed, layers

__all__ = ["distributed", "layers"]

__getattr__ = missing_names(__name__)
