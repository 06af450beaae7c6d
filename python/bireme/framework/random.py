"""Random numbers that can be repeated."""

from __future__ import annotations

from .. import _core
from .._missing import missing_names

__all__ = ["seed"]


def seed(seed: int) -> None:
    """Starts the random numbers of eager mode from here: first values, dropout, sampling.

    The first value of a parameter depends on the seed and its name, not on what was drawn before:
    it stays when another layer is put before it, and equal layers differ as their names do.
    Programs have a seed of their own: `Program.random_seed`.

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
