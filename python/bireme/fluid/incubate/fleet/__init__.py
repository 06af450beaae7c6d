"""`fleet` of Paddle 1.x; the object is in `parameter_server.distribute_transpiler`."""

from ...._missing import missing_names
from . import base, collective, parameter_server

__all__ = ["base", "collective", "parameter_server"]

__getattr__ = missing_names(__name__)
