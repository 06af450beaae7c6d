"""Which server holds what, where Paddle 1.x keeps it."""

from ..._missing import missing_names
from ...distributed.transpiler import HashName, PSDispatcher, RoundRobin

__all__ = ["HashName", "PSDispatcher", "RoundRobin"]

__getattr__ = missing_names(__name__)
