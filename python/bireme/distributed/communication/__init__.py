"""Calls that several processes make together, as Paddle groups them."""

from ..._missing import missing_names
from ..._names import set_public_names
from . import stream
from .calls import *
from .group import *
from .objects import *
from .point_to_point import *
from .reduce_op import *

set_public_names(__name__, also="stream")
__getattr__ = missing_names(__name__)
