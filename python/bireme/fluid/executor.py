"""Runs programs: the executor of `static`, which hands scalars back with shape [1] as 1.x does."""

from .._missing import missing_names
from ..static import Executor, Scope, global_scope, scope_guard
from ..static.executor import FetchHandler

__all__ = ["Executor", "FetchHandler", "Scope", "global_scope", "scope_guard"]

__getattr__ = missing_names(__name__)
