"""Readers of Paddle 1.x and what decorates them.

A reader is a function without arguments that returns an iterable of samples; a decorator takes
readers and returns a reader.
"""

from .._missing import missing_names
from .._names import set_public_names
from .decorator import *
from .parallel import *

set_public_names(__name__)
__getattr__ = missing_names(__name__)
