"""Paddle's folder for the parts of `fleet`; scripts take roles from it."""

from ...._missing import missing_names
from . import role_maker

__all__ = ["role_maker"]

__getattr__ = missing_names(__name__)
