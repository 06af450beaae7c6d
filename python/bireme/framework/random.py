"""Random numbers that can be repeated."""

from __future__ import annotations

from .. import _core
from .._missing import missing_names

__all__ = ["seed"]


def seed(seed: int) -> None:
    """Starts random numbers from here: first values, dropout, sampling, in both modes.

    The first value of a parameter depends on the seed and its name, not on what was drawn before:
    it stays when another layer is put before it, and equal layers differ as their names do.
    A program whose `random_seed` was set keeps that one.

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
