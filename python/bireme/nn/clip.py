"""Gradient clipping: `nn.ClipGradByValue`, `ByNorm` and `ByGlobalNorm`.

Optimizers hand `_spec()` to the engine, which clips on its way to the update. Called with pairs
of parameter and gradient, a clip returns new pairs.
"""

from __future__ import annotations

from typing import Any

from .. import _core
from ..tensor.arguments import constant

ops = _core.ops


class ClipGradBase:
    """Base class of gradient clips."""

    def _spec(self) -> tuple[Any, ...]:
        """The kind and the numbers of this clip, as the engine wants them."""
        raise NotImplementedError(f"`{type(self).__name__}` must define `_spec()`")

    def _clip(self, gradients: list[Any]) -> list[Any]:
        raise NotImplementedError(f"`{type(self).__name__}` must define `_clip()`")

    def __call__(self, params_grads: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """Clips the gradients of the parameters that want it (`ParamAttr(need_clip=)`)."""
        wanted = [i for i, (p, g) in enumerate(params_grads) if g is not None and _needs_clip(p)]
        clipped = list(params_grads)
        results = self._clip([params_grads[i][1] for i in wanted]) if wanted else []
        for i, gradient in zip(wanted, results):
            clipped[i] = (params_grads[i][0], gradient)
        return clipped


def _needs_clip(parameter: Any) -> bool:
    return getattr(parameter, "need_clip", True)


class ClipGradByValue(ClipGradBase):
    """Limits every element to [min, max]; `min` is `-max` if left out.

    >>> clip = paddle.nn.ClipGradByValue(1.0)
    >>> clip([(None, paddle.to_tensor([3.0, -0.5]))])[0][1].tolist()
    [1.0, -0.5]
    """

    def __init__(self, max: float, min: float | None = None) -> None:
        if min is None and max <= 0:
            raise AssertionError(f"`max` must be positive without `min`, but is {max}")
        self.max = float(max)
        self.min = -self.max if min is None else float(min)

    def _spec(self) -> tuple[Any, ...]:
        return "value", self.min, self.max

    def _clip(self, gradients: list[Any]) -> list[Any]:
        return [ops.clip(g, min=self.min, max=self.max) for g in gradients]


class ClipGradByNorm(ClipGradBase):
    """Shortens every gradient that is longer than `clip_norm`.

    >>> clip = paddle.nn.ClipGradByNorm(1.0)
    >>> clip([(None, paddle.to_tensor([3.0, 4.0]))])[0][1].tolist()
    [0.6000000238418579, 0.800000011920929]
    """

    def __init__(self, clip_norm: float) -> None:
        self.clip_norm = float(clip_norm)

    def _spec(self) -> tuple[Any, ...]:
        return "norm", self.clip_norm

    def _clip(self, gradients: list[Any]) -> list[Any]:
        return [ops.clip_by_norm(g, max_norm=self.clip_norm) for g in gradients]


class ClipGradByGlobalNorm(ClipGradBase):
    """Shortens all gradients by the same factor when all together are longer than `clip_norm`.

    >>> clip = paddle.nn.ClipGradByGlobalNorm(1.0)
    >>> clip([(None, paddle.to_tensor([3.0, 4.0]))])[0][1].tolist()
    [0.6000000238418579, 0.800000011920929]
    """

    def __init__(
        self,
        clip_norm: float,
        group_name: str = "default_group",
        auto_skip_clip: bool = False,
    ) -> None:
        if auto_skip_clip:
            raise NotImplementedError("`auto_skip_clip` is not supported")
        self.clip_norm = float(clip_norm)
        self.group_name = group_name

    def _spec(self) -> tuple[Any, ...]:
        return "global_norm", self.clip_norm

    def _clip(self, gradients: list[Any]) -> list[Any]:
        norm = ops.sqrt(ops.sum([ops.squared_l2_norm(g) for g in gradients]))
        limit = constant(self.clip_norm, norm.dtype.name, norm)
        factor = ops.elementwise_div(limit, ops.elementwise_max(norm, limit))
        return [ops.elementwise_mul(g, factor) for g in gradients]
