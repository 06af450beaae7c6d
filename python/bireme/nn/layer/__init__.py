"""Layers: everything here is also `paddle.nn.<name>`."""

from ..._missing import missing_names
from ..._names import set_public_names
from .activation import *
from .cells import *
from .common import *
from .container import *
from .conv import *
from .decoder import *
from .layers import Layer
from .loss import *
from .norm import *
from .pooling import *
from .rnn import *
from .transformer import *

set_public_names(__name__)
__getattr__ = missing_names(__name__)
