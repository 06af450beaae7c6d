"""Image data sets for `bireme.io.DataLoader`."""

from .mnist import MNIST, FashionMNIST

__all__ = ["MNIST", "FashionMNIST"]
