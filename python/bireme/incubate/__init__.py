"""What Paddle keeps apart until it is settled."""

from .._missing import missing_names
from . import layers

__all__ = ["layers"]

__getattr__ = missing_names(__name__)
