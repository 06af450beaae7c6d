"""Distributed training: parameter servers by `fleet` or `transpiler`.

Collective operations over several processes, and datasets, are missing: where a job would need
them it raises instead of letting its processes drift apart.
"""

from .._missing import missing_names
from . import fleet, transpiler
from .entry import CountFilterEntry, ProbabilityEntry, ShowClickEntry
from .parallel import ParallelEnv, get_rank, get_world_size, init_parallel_env

__all__ = [
    "CountFilterEntry",
    "ParallelEnv",
    "ProbabilityEntry",
    "ShowClickEntry",
    "fleet",
    "get_rank",
    "get_world_size",
    "init_parallel_env",
    "transpiler",
]

__getattr__ = missing_names(__name__)
