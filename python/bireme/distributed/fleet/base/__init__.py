"""Paddle's folder for the parts of `fleet`; scripts take roles and strategies from it."""

from ...._missing import missing_names
from . import distributed_strategy, role_maker

__all__ = ["distributed_strategy", "role_maker"]

__getattr__ = missing_names(__name__)
