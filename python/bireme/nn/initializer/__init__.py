"""How parameters get their first values: `paddle.nn.initializer`."""

from ..._missing import missing_names
from ..._names import set_public_names
from .initializer import *

set_public_names(__name__, but="Initializer")
__getattr__ = missing_names(__name__)
