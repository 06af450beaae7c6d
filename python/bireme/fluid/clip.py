"""Gradient clipping under its 1.x names."""

from __future__ import annotations

from typing import Any

from .._missing import missing_names
from ..nn.clip import ClipGradBase, ClipGradByGlobalNorm, ClipGradByNorm, ClipGradByValue


class GradientClipByGlobalNorm(ClipGradByGlobalNorm):
    """Scales all gradients down together where their common norm is over `clip_norm`.

    >>> clip = paddle.fluid.clip.GradientClipByGlobalNorm(1.0)
    >>> w = paddle.create_parameter([2], "float32")
    >>> (_, clipped), = clip([(w, paddle.to_tensor([3.0, 4.0]))])
    >>> [round(number, 4) for number in clipped.tolist()]
    [0.6, 0.8]
    """

    def __init__(self, clip_norm: float, group_name: str = "default_group") -> None:
        super().__init__(clip_norm, group_name)


_for_all: ClipGradBase | None = None


def set_gradient_clip(
    clip: ClipGradBase | None, param_list: Any = None, program: Any = None
) -> None:
    """Clips gradients of all optimizers of `fluid` that have no `grad_clip` of their own.

    Clipping some parameters only, or those of one program, is not in this version.

    >>> paddle.fluid.clip.set_gradient_clip(paddle.fluid.clip.GradientClipByNorm(1.0))
    >>> type(paddle.fluid.clip.default_clip()).__name__
    'ClipGradByNorm'
    >>> paddle.fluid.clip.set_gradient_clip(None)
    """
    global _for_all
    if param_list is not None or program is not None:
        raise NotImplementedError("`param_list` and `program` are not in this version")
    if clip is not None and not isinstance(clip, ClipGradBase):
        raise TypeError(f"`clip` must be one of `fluid.clip`, not {type(clip).__name__}")
    _for_all = clip


def default_clip() -> ClipGradBase | None:
    """What `set_gradient_clip` said last.

    >>> paddle.fluid.clip.default_clip() is None
    True
    """
    return _for_all


GradientClipByNorm = ClipGradByNorm
GradientClipByValue = ClipGradByValue

__getattr__ = missing_names(__name__)
