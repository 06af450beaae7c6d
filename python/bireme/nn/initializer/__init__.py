"""How parameters get their first values: `paddle.nn.initializer`."""

from ..._missing import missing_names
from .initializer import (
    Assign,
    Constant,
    KaimingNormal,
    KaimingUniform,
    Normal,
    Orthogonal,
    TruncatedNormal,
    Uniform,
    XavierNormal,
    XavierUniform,
    calculate_gain,
    set_global_initializer,
)
from .initializer import (
    Initializer as Initializer,
)

__all__ = [
    "Assign",
    "Constant",
    "KaimingNormal",
    "KaimingUniform",
    "Normal",
    "Orthogonal",
    "TruncatedNormal",
    "Uniform",
    "XavierNormal",
    "XavierUniform",
    "calculate_gain",
    "set_global_initializer",
]

__getattr__ = missing_names(__name__)
