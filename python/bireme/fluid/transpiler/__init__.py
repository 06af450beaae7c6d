"""The transpiler under its 1.x name; it is that of `distributed.transpiler`."""

from ..._missing import missing_names
from ...distributed.transpiler import (
    DistributeTranspiler,
    DistributeTranspilerConfig,
    HashName,
    RoundRobin,
)
from ..inputs import memory_optimize, release_memory
from . import distribute_transpiler, ps_dispatcher

__all__ = [
    "DistributeTranspiler",
    "DistributeTranspilerConfig",
    "HashName",
    "RoundRobin",
    "distribute_transpiler",
    "memory_optimize",
    "ps_dispatcher",
    "release_memory",
]

__getattr__ = missing_names(__name__)
