"""Layers for programs: each call adds ops, and parameters to the startup program.

Control flow (`cond`, `while_loop`, `case`, `switch_case`) and `py_func` are missing: a program is
one block of ops that the engine knows. Write loops over steps in Python, and choices with `where`.
"""

from ..._missing import missing_names
from .common import bilinear_tensor_product, conv2d, embedding, fc, prelu, sparse_embedding
from .norm import batch_norm, data_norm, layer_norm
from .sequence_lod import (
    continuous_value_model,
    sequence_expand,
    sequence_first_step,
    sequence_last_step,
    sequence_pool,
    sequence_softmax,
)

__all__ = [
    "batch_norm",
    "bilinear_tensor_product",
    "continuous_value_model",
    "conv2d",
    "data_norm",
    "embedding",
    "fc",
    "layer_norm",
    "prelu",
    "sequence_expand",
    "sequence_first_step",
    "sequence_last_step",
    "sequence_pool",
    "sequence_softmax",
    "sparse_embedding",
]

__getattr__ = missing_names(__name__)
