"""Runs programs: the executor of `static`, which hands scalars back with shape [1] as 1.x does."""

from .._missing import missing_names
from ..static import Executor, Scope, global_scope, scope_guard

__all__ = ["Executor", "Scope", "global_scope", "scope_guard"]

__getattr__ = missing_names(__name__)
