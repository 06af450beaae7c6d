"""Image data sets for `bireme.io.DataLoader`."""

from ..._missing import missing_names
from .mnist import MNIST, FashionMNIST

__all__ = ["MNIST", "FashionMNIST"]

__getattr__ = missing_names(__name__)
