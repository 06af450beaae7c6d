"""Functions of neural networks, without parameters of their own: `paddle.nn.functional`."""

from .activation import *
from .common import *
from .conv import *
from .cross_entropy import *
from .loss import *
from .norm import *
from .pooling import *
