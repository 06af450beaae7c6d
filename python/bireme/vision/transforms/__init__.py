"""Transforms of single images: numpy arrays, Pillow images or tensors."""

from ..._missing import missing_names
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

__getattr__ = missing_names(__name__)
