"""Decay of parameters towards zero, for an optimizer or a single parameter."""

from __future__ import annotations

from ._missing import missing_names

__all__ = ["L1Decay", "L2Decay"]


class WeightDecayRegularizer:
    """What the kinds of decay have in common: `kind` and coefficient, as the engine takes them.

    >>> import bireme as paddle
    >>> paddle.regularizer.L2Decay(0.1)._as_tuple()
    ('l2', 0.1)
    """

    kind = ""

    def __init__(self, coeff: float = 0.0) -> None:
        if isinstance(coeff, bool) or not isinstance(coeff, (int, float)):
            raise TypeError(f"`coeff` must be a number, not {type(coeff).__name__}")
        self._coeff = float(coeff)

    def _as_tuple(self) -> tuple[str, float]:
        return (self.kind, self._coeff)

    def __str__(self) -> str:
        return f"{type(self).__name__}, coeff={self._coeff:f}"


class L1Decay(WeightDecayRegularizer):
    """Adds `coeff * sign(parameter)` to the gradient.

    >>> import bireme as paddle
    >>> print(paddle.regularizer.L1Decay(0.1))
    L1Decay, coeff=0.100000
    """

    kind = "l1"


class L2Decay(WeightDecayRegularizer):
    """Adds `coeff * parameter` to the gradient.

    >>> import bireme as paddle
    >>> print(paddle.regularizer.L2Decay(1e-4))
    L2Decay, coeff=0.000100
    """

    kind = "l2"


__getattr__ = missing_names(__name__)
