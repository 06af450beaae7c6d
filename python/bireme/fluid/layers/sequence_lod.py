"""Layers over sequences of different lengths: the same functions as in 2.x."""

from ...nn.functional import sequence_mask
from ...static.nn.sequence_lod import (
    sequence_expand,
    sequence_first_step,
    sequence_last_step,
    sequence_pool,
    sequence_softmax,
)

__all__ = [
    "sequence_expand",
    "sequence_first_step",
    "sequence_last_step",
    "sequence_mask",
    "sequence_pool",
    "sequence_softmax",
]
