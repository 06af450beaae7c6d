"""Datasets: files that an executor trains on by itself, without Python between the batches."""

from ...._missing import missing_names
from .dataset import DatasetBase, InMemoryDataset, QueueDataset

__all__ = ["DatasetBase", "InMemoryDataset", "QueueDataset"]

__getattr__ = missing_names(__name__)
