"""Kinds of `fleet` that train with parameter servers."""

from ....._missing import missing_names
from . import distribute_transpiler, mode, pslib

__all__ = ["distribute_transpiler", "mode", "pslib"]

__getattr__ = missing_names(__name__)
