"""Messages along the edges of graphs: `paddle.geometric`."""

from .._missing import missing_names
from .._names import set_public_names
from .message_passing import *
from .segment import *

set_public_names(__name__)
__getattr__ = missing_names(__name__)
