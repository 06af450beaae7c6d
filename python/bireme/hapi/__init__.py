"""A look at a network from the outside: `summary` and `flops`."""

from __future__ import annotations

from .._missing import missing_names
from .model_flops import flops
from .model_summary import summary

__all__ = ["flops", "summary"]

__getattr__ = missing_names(__name__)
