"""How a parameter is described: the class of 2.x."""

from .._missing import missing_names
from ..framework import ParamAttr

__all__ = ["ParamAttr"]

__getattr__ = missing_names(__name__)
