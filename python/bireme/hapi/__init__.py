"""`Model`, which trains a network without a loop, and looks at networks: `summary` and `flops`."""

from __future__ import annotations

from .._missing import missing_names
from . import callbacks
from .model import Model
from .model_flops import flops
from .model_summary import summary

__all__ = ["Model", "callbacks", "flops", "summary"]

__getattr__ = missing_names(__name__)
