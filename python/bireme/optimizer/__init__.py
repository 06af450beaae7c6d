"""Optimizers and learning rate schedules: `paddle.optimizer`."""

from .._missing import missing_names
from . import lr
from .optimizer import Optimizer
from .optimizers import SGD, Adadelta, Adagrad, Adam, Adamax, AdamW, Lamb, Momentum, RMSProp

__all__ = [
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Lamb",
    "Momentum",
    "Optimizer",
    "RMSProp",
    "lr",
]

__getattr__ = missing_names(__name__)
