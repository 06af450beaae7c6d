"""Names that no other variable has: the functions of `utils.unique_name`."""

from .._missing import missing_names
from ..utils.unique_name import generate, guard, switch

__all__ = ["generate", "guard", "switch"]

__getattr__ = missing_names(__name__)
