"""Gradient clipping under its 1.x names."""

from __future__ import annotations

from .._missing import missing_names
from ..nn import ClipGradByGlobalNorm, ClipGradByNorm, ClipGradByValue


class GradientClipByGlobalNorm(ClipGradByGlobalNorm):
    """Scales all gradients down together where their common norm is over `clip_norm`.

    >>> clip = paddle.fluid.clip.GradientClipByGlobalNorm(1.0)
    """

    def __init__(self, clip_norm: float, group_name: str = "default_group") -> None:
        super().__init__(clip_norm, group_name)


GradientClipByNorm = ClipGradByNorm
GradientClipByValue = ClipGradByValue

__getattr__ = missing_names(__name__)
