"""Bireme: distributed training for recommender and dense models, with Paddle's API.

    >>> import bireme as paddle
    >>> paddle.add(paddle.to_tensor([1.0, 2.0]), paddle.to_tensor([3.0, 4.0])).tolist()
    [4.0, 6.0]

What Paddle calls `paddle.nn` is `bireme.nn`, and so on: programs need another import line, or none
at all under `python -m bireme`. Subpackages are imported when they are first used.
"""

from __future__ import annotations

from . import _core, framework, tensor
from ._alias import install_alias
from ._core import (
    BiremeError,
    FileError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    Tensor,
    UnavailableError,
    UnimplementedError,
)
from ._missing import install_finder, missing_names
from ._names import LAZY
from .batch import batch
from .framework import *
from .tensor import *

install_finder()
__getattr__ = missing_names(__name__, LAZY)

__version__: str = _core.__version__

__all__ = [
    "BiremeError",
    "FileError",
    "InternalError",
    "InvalidArgumentError",
    "NotFoundError",
    "Tensor",
    "UnavailableError",
    "UnimplementedError",
    "batch",
    "install_alias",
]
__all__ += framework.__all__
__all__ += tensor.__all__


def __dir__() -> list[str]:
    return sorted({*globals(), *LAZY})
