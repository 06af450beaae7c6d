"""Callbacks of `paddle.Model`: what is done beside its training, and between its steps."""

from __future__ import annotations

from ._missing import missing_names
from .hapi.callbacks import (
    Callback,
    EarlyStopping,
    LRScheduler,
    ModelCheckpoint,
    ProgBarLogger,
    ReduceLROnPlateau,
    VisualDL,
)

__all__ = [
    "Callback",
    "EarlyStopping",
    "LRScheduler",
    "ModelCheckpoint",
    "ProgBarLogger",
    "ReduceLROnPlateau",
    "VisualDL",
]

__getattr__ = missing_names(__name__)
