"""What 1.x scripts take from Paddle's C++ side."""

from .._missing import missing_names
from ..framework.core import *

__getattr__ = missing_names(__name__)
