"""Layers for programs: each call adds ops, and parameters to the startup program.

Control flow (`cond`, `while_loop`, `case`, `switch_case`) and `py_func` are missing: a program is
one block of ops that the engine knows. Write loops over steps in Python, and choices with `where`.
"""

from ..._missing import missing_names
from ..._names import set_public_names
from .common import *
from .loss import *
from .norm import *
from .sequence_lod import *

set_public_names(__name__)
__getattr__ = missing_names(__name__)
