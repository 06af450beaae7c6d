"""Gradients in eager mode: `backward`, and `PyLayer` for functions with a gradient of their own."""

from __future__ import annotations

from .._missing import missing_names
from .backward_mode import backward
from .py_layer import PyLayer, PyLayerContext

__all__ = ["PyLayer", "PyLayerContext", "backward"]

__getattr__ = missing_names(__name__)
