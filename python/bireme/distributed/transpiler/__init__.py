"""Splits programs for trainers and parameter servers, see `DistributeTranspiler`."""

from ..._missing import missing_names
from .config import DistributeTranspilerConfig, ServerRuntimeConfig
from .distribute_transpiler import DistributeTranspiler
from .ps_dispatcher import HashName, PSDispatcher, RoundRobin

__all__ = [
    "DistributeTranspiler",
    "DistributeTranspilerConfig",
    "HashName",
    "PSDispatcher",
    "RoundRobin",
    "ServerRuntimeConfig",
]

# `fluid` imports this module, so these come when they are asked for.
__getattr__ = missing_names(
    __name__,
    {name: f"bireme.fluid:{name}" for name in ("memory_optimize", "release_memory")},
)
