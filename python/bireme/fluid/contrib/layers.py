"""Layers that 1.x kept apart: those of `incubate.layers`."""

from ..._missing import missing_names
from ...incubate.layers import partial_concat, partial_sum, shuffle_batch
from ...static.nn import sparse_embedding

__all__ = ["partial_concat", "partial_sum", "shuffle_batch", "sparse_embedding"]

__getattr__ = missing_names(__name__)
