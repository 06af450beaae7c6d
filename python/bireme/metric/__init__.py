"""Metrics over many batches (classes) and over one batch (`accuracy`)."""

from .._missing import missing_names
from .metrics import Accuracy, Auc, Metric, Precision, Recall, accuracy

__all__ = ["Accuracy", "Auc", "Metric", "Precision", "Recall", "accuracy"]

__getattr__ = missing_names(__name__)
