"""Metrics inside a program: the same functions as in `static`."""

from ...static.nn.metric import accuracy, auc

__all__ = ["accuracy", "auc"]
