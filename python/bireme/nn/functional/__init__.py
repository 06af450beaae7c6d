"""Functions of neural networks, without parameters of their own: `paddle.nn.functional`."""

from ..._missing import missing_names
from ..._names import set_public_names
from .activation import *
from .common import *
from .conv import *
from .cross_entropy import *
from .likelihood import *
from .loss import *
from .norm import *
from .pooling import *
from .vision import *

set_public_names(__name__)
__getattr__ = missing_names(__name__)
