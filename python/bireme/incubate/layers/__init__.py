"""Layers of recommender models that Paddle keeps apart."""

from ..._missing import missing_names
from .nn import (
    batch_fc,
    fused_seqpool_cvm,
    partial_concat,
    partial_sum,
    rank_attention,
    shuffle_batch,
    tdm_child,
    tdm_sampler,
)

__all__ = [
    "batch_fc",
    "fused_seqpool_cvm",
    "partial_concat",
    "partial_sum",
    "rank_attention",
    "shuffle_batch",
    "tdm_child",
    "tdm_sampler",
]

__getattr__ = missing_names(__name__)
