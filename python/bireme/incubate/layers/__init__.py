"""Layers of recommender models that Paddle keeps apart."""

from ..._missing import missing_names
from .nn import fused_seqpool_cvm, partial_concat, partial_sum, shuffle_batch

__all__ = ["fused_seqpool_cvm", "partial_concat", "partial_sum", "shuffle_batch"]

__getattr__ = missing_names(__name__)
