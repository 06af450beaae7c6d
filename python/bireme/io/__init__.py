"""Data sets, samplers and the `DataLoader` that turns them into batches."""

from .._missing import missing_names
from .._names import set_public_names
from .dataloader import *
from .reader import DataLoader as DataLoader

set_public_names(__name__)
__getattr__ = missing_names(__name__)
