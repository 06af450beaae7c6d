"""Functions on tensors: everything here is also `paddle.<name>`."""

from .._missing import missing_names
from .._names import set_public_names
from . import inplace, methods
from .array import *
from .attribute import *
from .creation import *
from .einsum import *
from .linalg import *
from .logic import *
from .manipulation import *
from .math import *
from .ops import *
from .random import *
from .scatter import *
from .search import *
from .stat import *
from .to_string import set_printoptions

methods.attach()
globals().update(inplace.FUNCTIONS)

# What Paddle has as methods only, or under `paddle.tensor` only, is not listed.
_METHODS_ONLY = """
array_length array_read array_write create_array tensor_array_to_tensor
acosh_ add_ asinh_ atanh_ ceil_ clip_ cosh_ cov create_tensor exp_ flatten_ floor_ gaussian
lerp_ log1p_ logical_xor_ matrix_power multi_dot not_equal_ put_along_axis_ reciprocal_ round_
rsqrt_ scale_ sigmoid sigmoid_ sqrt_ subtract_
"""
set_public_names(__name__, but=_METHODS_ONLY)
__getattr__ = missing_names(__name__)
