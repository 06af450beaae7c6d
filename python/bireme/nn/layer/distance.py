"""Distances as layers."""

from .common import PairwiseDistance

__all__ = ["PairwiseDistance"]
