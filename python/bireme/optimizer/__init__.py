"""Optimizers and learning rate schedules: `paddle.optimizer`."""

from .._missing import missing_names
from .._names import set_public_names
from . import lr
from .optimizer import Optimizer as Optimizer
from .optimizers import *

set_public_names(__name__, also="lr")
__getattr__ = missing_names(__name__)
