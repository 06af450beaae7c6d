"""Distributed training: parameter servers by `fleet` or `transpiler`, collective calls, `spawn`."""

from .._missing import missing_names
from .._names import set_public_names
from . import communication, fleet, transpiler
from .communication import *
from .data_parallel import DataParallel as DataParallel
from .entry import *
from .fleet.dataset import InMemoryDataset as InMemoryDataset
from .fleet.dataset import QueueDataset as QueueDataset
from .gloo import *
from .parallel import *
from .spawn import spawn as spawn

set_public_names(__name__, also="communication fleet stream transpiler", but="Group")
__getattr__ = missing_names(__name__)
