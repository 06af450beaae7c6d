"""Helpers of jobs."""

from ...._missing import missing_names
from . import fleet_util

__all__ = ["fleet_util"]

__getattr__ = missing_names(__name__)
