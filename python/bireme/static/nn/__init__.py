"""Layers for programs: each call adds ops, and parameters to the startup program.

`py_func` is missing: programs run without Python.
"""

from ..._missing import missing_names
from ..._names import set_public_names
from .common import *
from .control_flow import *
from .loss import *
from .norm import *
from .sequence_lod import *
from .static_rnn import *

set_public_names(__name__)
__getattr__ = missing_names(__name__)
