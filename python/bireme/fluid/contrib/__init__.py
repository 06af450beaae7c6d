"""Layers that 1.x kept apart."""

from ..._missing import missing_names
from ...static.nn import sparse_embedding
from . import layers

__all__ = ["layers", "sparse_embedding"]

__getattr__ = missing_names(__name__)
