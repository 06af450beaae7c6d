"""Data sets of Paddle 1.x as readers: `uci_housing` ships with the package, `mnist` is cached."""

from .._missing import missing_names
from . import common, mnist, uci_housing

__all__ = ["common", "mnist", "uci_housing"]

__getattr__ = missing_names(__name__)
