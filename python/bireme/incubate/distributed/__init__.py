"""What Paddle keeps apart of distributed training until it is settled."""

from ..._missing import missing_names
from . import fleet

__all__ = ["fleet"]

__getattr__ = missing_names(__name__)
