"""Neural networks: layers, and functions and initialisers for them."""

from .._missing import missing_names
from .._names import set_public_names
from . import functional, initializer, utils
from .clip import ClipGradByGlobalNorm, ClipGradByNorm, ClipGradByValue
from .layer import *
from .layer import layers as layers

set_public_names(__name__, also="functional initializer utils")
__getattr__ = missing_names(__name__)
