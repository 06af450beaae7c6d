"""Compiled programs: the thin ones of `static`."""

from .._missing import missing_names
from ..static import BuildStrategy, CompiledProgram, ExecutionStrategy

__all__ = ["BuildStrategy", "CompiledProgram", "ExecutionStrategy"]

__getattr__ = missing_names(__name__)
