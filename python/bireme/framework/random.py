"""Random numbers that can be repeated."""

from __future__ import annotations

from .. import _core
from .._missing import missing_names

__all__ = ["seed"]


def seed(seed: int) -> None:
    """Starts all random numbers from here: initial values, dropout, sampling.

    >>> import bireme as paddle
    >>> paddle.seed(7)
    >>> first = paddle.rand([3]).tolist()
    >>> paddle.seed(7)
    >>> paddle.rand([3]).tolist() == first
    True
    """
    from ..tensor.arguments import integer

    _core.seed(integer(seed, "seed"))


__getattr__ = missing_names(__name__)
