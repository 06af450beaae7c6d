"""Cross entropy over classes, with weights, ignored labels and smoothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tensor.arguments import Tensor, ops, require_tensor
from .common import label_smooth
from .loss import reduced

__all__ = ["cross_entropy", "nll_loss"]


def cross_entropy(
    input: Tensor,
    label: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    soft_label: bool = False,
    axis: int = -1,
    use_softmax: bool = True,
    label_smoothing: float = 0.0,
    name: str | None = None,
) -> Tensor:
    """The cross entropy of logits (probabilities without `use_softmax`) and class labels.

    The mean is over the labels that are not `ignore_index`, by their weights if there are any.

    >>> loss = paddle.nn.functional.cross_entropy(paddle.zeros([1, 2]), paddle.to_tensor([1]))
    >>> round(loss.item(), 4)
    0.6931
    """
    require_tensor(input, "input")
    if ignore_index > 0 and soft_label:
        raise ValueError("`ignore_index` has no meaning for soft labels")
    if label.ndim not in (input.ndim, input.ndim - 1) or input.ndim == 0:
        raise ValueError(
            f"`label` must have as many axes as `input` or one less, "
            f"but they have {label.ndim} and {input.ndim}"
        )
    flat = label.ndim == input.ndim - 1
    if label_smoothing > 0.0:
        label = ops.one_hot_v2(label, depth=input.shape[-1]) if flat else label
        label = label_smooth(label.astype(input.dtype), epsilon=label_smoothing)
        flat, soft_label = False, True
    elif flat:
        label = ops.unsqueeze2(label, axes=[axis])
    _, out = ops.softmax_with_cross_entropy(
        input,
        label,
        soft_label=soft_label,
        use_softmax=use_softmax,
        ignore_index=ignore_index,
        axis=axis,
    )
    weights = None if weight is None else _weights(label, weight, ignore_index, soft_label, axis)
    out = out if weights is None else out * weights
    if reduction == "mean":
        return _mean(out, weights, None if soft_label else label, ignore_index)
    out = reduced(out, reduction)
    return ops.squeeze2(out, axes=[axis]) if reduction == "none" and flat else out


def _weights(label: Tensor, weight: Tensor, ignore_index: int, soft: bool, axis: int) -> Tensor:
    """The weight of each row: that of its class, or of its soft label."""
    if soft:
        total = ops.matmul_v2(label.astype(weight.dtype), weight)
        return ops.unsqueeze2(total, axes=[-1])
    kept = label != ignore_index
    valid = ops.elementwise_mul(label, kept.astype(label.dtype))
    chosen = ops.gather(weight, ops.reshape2(valid, shape=[-1]))
    shape = [-1 if i == 0 else n for i, n in enumerate(label.shape)]
    return ops.reshape2(chosen, shape=shape) * kept.astype(weight.dtype)


def _mean(out: Tensor, weights: Tensor | None, label: Any, ignore_index: int) -> Tensor:
    if weights is None and not _may_ignore(label, ignore_index):
        return ops.reduce_mean(out, reduce_all=True, dim=[])
    if weights is None:
        weights = (label != ignore_index).astype(out.dtype)
    total = ops.reduce_sum(weights, reduce_all=True, dim=[])
    # Without any label left the loss is 0, not 0 / 0.
    total = total + (total == 0.0).astype(total.dtype)
    return ops.reduce_sum(out, reduce_all=True, dim=[]) / total


def _may_ignore(label: Any, ignore_index: int) -> bool:
    """Whether labels are ignored: eager ones are looked at, static ones as Paddle decides.

    A card is not waited for to know it: with a mask the mean is the same.
    """
    if label is None:
        return False
    if isinstance(label, Tensor):
        if not label._is_on_host():
            return True
        return bool((np.asarray(label) == ignore_index).any())
    return ignore_index >= 0


def nll_loss(
    input: Tensor,
    label: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    name: str | None = None,
) -> Tensor:
    """Minus the log-probability of the labels: classes are the second axis of `input`.

    >>> logs = paddle.to_tensor([[-1.0, -2.0]])
    >>> paddle.nn.functional.nll_loss(logs, paddle.to_tensor([1])).item()
    2.0
    """
    require_tensor(input, "input")
    classes = input.shape[1]
    order = [0, *range(2, input.ndim), 1]
    logs = ops.transpose2(input, axis=order) if input.ndim > 2 else input
    kept = (label != ignore_index).astype(input.dtype)
    valid = ops.elementwise_mul(label, kept.astype(label.dtype))
    chosen = ops.one_hot_v2(valid, depth=classes).astype(input.dtype)
    if weight is None:
        weights = kept
    else:
        weights = kept * ops.matmul_v2(chosen, weight)
    out = -ops.reduce_sum(logs * chosen, dim=[-1]) * weights
    if reduction != "mean":
        return reduced(out, reduction)
    total = ops.reduce_sum(weights, reduce_all=True, dim=[])
    return ops.reduce_sum(out, reduce_all=True, dim=[]) / total
