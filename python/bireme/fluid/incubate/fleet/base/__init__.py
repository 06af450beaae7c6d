"""Roles, and what all kinds of `fleet` have in common."""

from ....._missing import missing_names
from . import fleet_base, mode, role_maker

__all__ = ["fleet_base", "mode", "role_maker"]

__getattr__ = missing_names(__name__)
