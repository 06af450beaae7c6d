"""`paddle.amp`: mixed precision of eager mode.

Inside `auto_cast`, products compute with 16 bits, what needs digits with 32, and the rest as what it is given. With
`float16` a `GradScaler` keeps small gradients from vanishing; `bfloat16` needs none. `decorate` keeps the parameters
themselves in 16 bits, with master copies of 32 in the optimizer. Static programs have `static.amp`.
"""

from __future__ import annotations

from .._missing import missing_names
from .auto_cast import (
    amp_decorate,
    amp_guard,
    auto_cast,
    black_list,
    decorate,
    is_bfloat16_supported,
    is_float16_supported,
    white_list,
)
from .grad_scaler import AmpScaler, GradScaler

__all__ = [
    "AmpScaler",
    "GradScaler",
    "amp_decorate",
    "amp_guard",
    "auto_cast",
    "black_list",
    "decorate",
    "is_bfloat16_supported",
    "is_float16_supported",
    "white_list",
]

__getattr__ = missing_names(__name__)
