"""Losses of distributions and of margins that users choose."""

from __future__ import annotations

import math
from typing import Any

from ..._names import set_public_names
from ...tensor.arguments import Tensor, ops, real, require_tensor
from .common import pairwise_distance
from .loss import reduced


def gaussian_nll_loss(
    input: Tensor,
    label: Tensor,
    variance: Tensor,
    full: bool = False,
    epsilon: float = 1e-06,
    reduction: str = "mean",
    name: str | None = None,
) -> Any:
    """Minus the log-density of labels under normal distributions.

    >>> paddle.nn.functional.gaussian_nll_loss(paddle.ones([2]), paddle.ones([2]), paddle.ones([2])).item()
    0.0
    """
    require_tensor(input, "input")
    require_tensor(label, "label")
    variance = ops.elementwise_max(
        variance, ops.fill_any_like(variance, value=real(epsilon, "epsilon"))
    )
    out = ops.scale(ops.log(variance) + ops.square(input - label) / variance, scale=0.5)
    return reduced(ops.scale(out, bias=0.5 * math.log(2 * math.pi)) if full else out, reduction)


def poisson_nll_loss(
    input: Tensor,
    label: Tensor,
    log_input: bool = True,
    full: bool = False,
    epsilon: float = 1e-08,
    reduction: str = "mean",
    name: str | None = None,
) -> Any:
    """Minus the log-probability of counts under Poisson distributions.

    >>> paddle.nn.functional.poisson_nll_loss(paddle.zeros([2]), paddle.ones([2])).item()
    1.0
    """
    if log_input:
        out = ops.exp(input) - label * input
    else:
        out = input - label * ops.log(ops.scale(input, bias=real(epsilon, "epsilon")))
    if full:
        rest = (
            label * ops.log(label)
            - label
            + ops.scale(ops.log(ops.scale(label, scale=2 * math.pi)), scale=0.5)
        )
        out = out + ops.where(label > 1.0, rest, ops.fill_any_like(rest, value=0.0))
    return reduced(out, reduction)


def multi_margin_loss(
    input: Tensor,
    label: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    reduction: str = "mean",
    name: str | None = None,
) -> Any:
    """How far other classes come within the margin of the right one.

    >>> paddle.nn.functional.multi_margin_loss(paddle.zeros([1, 2]), paddle.to_tensor([1])).item()
    0.5
    """
    require_tensor(input, "input")
    if p not in (1, 2):
        raise ValueError(f"`p` must be 1 or 2, but is {p}")
    classes = input.shape[1]
    right = ops.one_hot_v2(label, depth=classes).astype(input.dtype)
    score = ops.reduce_sum(input * right, dim=[1], keep_dim=True)
    apart = ops.scale(input - score, bias=real(margin, "margin"))
    # The right class is taken off as Paddle does it: by its weight, not by a power of it.
    extra = real(margin, "margin") ** p / classes
    if weight is None:
        out = ops.pow(ops.relu(apart), factor=real(p, "p"))
        return reduced(ops.scale(ops.reduce_mean(out, dim=[1]), bias=-extra), reduction)
    own = ops.unsqueeze2(ops.gather(weight, label), axes=[1])
    out = ops.reduce_mean(ops.pow(ops.relu(apart * own), factor=real(p, "p")), dim=[1])
    return reduced(out - ops.scale(ops.squeeze2(own, axes=[1]), scale=extra), reduction)


def triplet_margin_with_distance_loss(
    input: Tensor,
    positive: Tensor,
    negative: Tensor,
    distance_function: Any = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
    name: str | None = None,
) -> Any:
    """As `triplet_margin_loss`, with a distance of one's own.

    >>> paddle.nn.functional.triplet_margin_with_distance_loss(paddle.ones([1, 2]), paddle.ones([1, 2]), paddle.ones([1, 2])).item()
    1.0
    """
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(input, positive), distance(input, negative)
    if swap:
        far = ops.elementwise_min(far, distance(positive, negative))
    return reduced(ops.relu(ops.scale(near - far, bias=real(margin, "margin"))), reduction)


set_public_names(__name__)
