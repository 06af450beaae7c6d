"""Distributed training. In this version a job is one process; more raise instead of drifting apart.

Parameter servers, collective operations and datasets are missing.
"""

from .._missing import missing_names
from . import fleet
from .entry import CountFilterEntry, ProbabilityEntry, ShowClickEntry
from .environment import ParallelEnv, get_rank, get_world_size, init_parallel_env

__all__ = [
    "CountFilterEntry",
    "ParallelEnv",
    "ProbabilityEntry",
    "ShowClickEntry",
    "fleet",
    "get_rank",
    "get_world_size",
    "init_parallel_env",
]

__getattr__ = missing_names(__name__)
