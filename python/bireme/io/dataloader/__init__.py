"""The parts of `bireme.io`: data sets, samplers, collation and worker processes."""

from ..._missing import missing_names
from ..._names import set_public_names
from .batch_sampler import *
from .dataset import *
from .sampler import *
from .worker import get_worker_info as get_worker_info

set_public_names(__name__)
__getattr__ = missing_names(__name__)
