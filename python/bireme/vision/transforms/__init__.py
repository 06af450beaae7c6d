"""Transforms of single images: numpy arrays, Pillow images or tensors."""

from .functional import normalize, to_tensor
from .transforms import BaseTransform, Compose, Normalize, ToTensor, Transpose

__all__ = [
    "BaseTransform",
    "Compose",
    "Normalize",
    "ToTensor",
    "Transpose",
    "normalize",
    "to_tensor",
]
