"""Data sets of Paddle 1.x as readers: `uci_housing` ships with the package, `mnist` is cached."""

from . import common, mnist, uci_housing

__all__ = ["common", "mnist", "uci_housing"]
