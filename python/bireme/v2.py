"""`paddle.v2`: what scripts of the first Paddle import for their readers and data sets.

>>> import bireme.v2 as paddle
>>> list(paddle.batch(lambda: iter(range(3)), batch_size=2)())
[[0, 1], [2]]
"""

from __future__ import annotations

from ._missing import missing_names
from .batch import batch

__all__ = ["batch"]

__getattr__ = missing_names(
    __name__, {"dataset": "bireme.dataset", "fluid": "bireme.fluid", "reader": "bireme.reader"}
)
