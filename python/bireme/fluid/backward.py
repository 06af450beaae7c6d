"""Gradients of a program: the functions of `static`."""

from .._missing import missing_names
from ..static import append_backward, gradients

__all__ = ["append_backward", "gradients"]

__getattr__ = missing_names(__name__)
