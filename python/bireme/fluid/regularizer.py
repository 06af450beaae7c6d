"""Weight decay under its 1.x names."""

from __future__ import annotations

from .. import regularizer as _regularizer
from .._missing import missing_names


class L1DecayRegularizer(_regularizer.L1Decay):
    """Adds `regularization_coeff * sum(abs(w))` to the loss.

    >>> print(paddle.fluid.regularizer.L1Decay(0.01))
    L1DecayRegularizer, coeff=0.010000
    """

    def __init__(self, regularization_coeff: float = 0.0) -> None:
        super().__init__(regularization_coeff)


class L2DecayRegularizer(_regularizer.L2Decay):
    """Adds `regularization_coeff / 2 * sum(w * w)` to the loss.

    >>> print(paddle.fluid.regularizer.L2Decay(regularization_coeff=0.01))
    L2DecayRegularizer, coeff=0.010000
    """

    def __init__(self, regularization_coeff: float = 0.0) -> None:
        super().__init__(regularization_coeff)


L1Decay = L1DecayRegularizer
L2Decay = L2DecayRegularizer

__getattr__ = missing_names(__name__)
