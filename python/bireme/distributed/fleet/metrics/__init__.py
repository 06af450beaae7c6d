"""Metrics over all workers of a job."""

from ...._missing import missing_names
from .metric import acc, auc, mae, max, min, mse, rmse, sum

__all__ = ["acc", "auc", "mae", "max", "min", "mse", "rmse", "sum"]

__getattr__ = missing_names(__name__)
