"""`fluid.layers`: what programs of Paddle 1.x are built of.

Names that 2.x kept are the same functions; the others have their 1.x signatures. Readers inside
programs (`py_reader`), `IfElse`, `DynamicRNN` and detection layers are missing.
"""

from ..._missing import missing_names
from . import (
    blocks,
    control_flow,
    elementwise,
    io,
    learning_rate_scheduler,
    loss,
    manipulation,
    math,
    metric_op,
    nn,
    ops,
    rnn,
    sequence_lod,
    tensor,
)
from .blocks import *
from .control_flow import *
from .elementwise import *
from .io import *
from .learning_rate_scheduler import *
from .loss import *  # type: ignore[no-redef]
from .manipulation import *
from .math import *
from .metric_op import *
from .nn import *
from .ops import *
from .rnn import *
from .sequence_lod import *
from .tensor import *

_PARTS = (
    blocks,
    control_flow,
    elementwise,
    io,
    learning_rate_scheduler,
    loss,
    manipulation,
    math,
    metric_op,
    nn,
    ops,
    rnn,
    sequence_lod,
    tensor,
)

__all__ = ["io", "learning_rate_scheduler", "loss", "math"]
__all__ += [name for part in _PARTS for name in part.__all__]

__getattr__ = missing_names(__name__)
