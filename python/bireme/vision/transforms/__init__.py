"""Transforms of single images: numpy arrays, Pillow images or tensors."""

from ..._missing import missing_names
from ..._names import set_public_names
from .functional import *
from .transforms import *

set_public_names(__name__)
__getattr__ = missing_names(__name__)
