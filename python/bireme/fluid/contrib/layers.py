"""Layers that 1.x kept apart: those of `incubate.layers`."""

from ..._missing import missing_names
from ...incubate.layers import (
    batch_fc,
    fused_seqpool_cvm,
    partial_concat,
    partial_sum,
    rank_attention,
    shuffle_batch,
    tdm_child,
    tdm_sampler,
)
from ...static.nn import sparse_embedding

__all__ = [
    "batch_fc",
    "fused_seqpool_cvm",
    "partial_concat",
    "partial_sum",
    "rank_attention",
    "shuffle_batch",
    "sparse_embedding",
    "tdm_child",
    "tdm_sampler",
]

__getattr__ = missing_names(__name__)
