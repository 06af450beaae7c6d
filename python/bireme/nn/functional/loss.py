"""Losses."""

from __future__ import annotations

from typing import Any

from ..._names import set_public_names
from ...tensor.arguments import Tensor, ops, real, require_tensor
from .common import pairwise_distance


def square_error_cost(input: Tensor, label: Tensor) -> Any:
    """The squared difference of each element.

    >>> paddle.nn.functional.square_error_cost(paddle.to_tensor([3.0]), paddle.to_tensor([1.0])).tolist()
    [4.0]
    """
    return ops.square(ops.elementwise_sub(input, label))


def mse_loss(input: Tensor, label: Tensor, reduction: str = "mean", name: str | None = None) -> Any:
    """The mean squared difference.

    >>> paddle.nn.functional.mse_loss(paddle.to_tensor([3.0]), paddle.to_tensor([1.0])).item()
    4.0
    """
    return reduced(ops.square(ops.elementwise_sub(input, label)), reduction)


def l1_loss(input: Tensor, label: Tensor, reduction: str = "mean", name: str | None = None) -> Any:
    """The mean absolute difference.

    >>> paddle.nn.functional.l1_loss(paddle.to_tensor([3.0]), paddle.to_tensor([1.0])).item()
    2.0
    """
    return reduced(ops.abs(ops.elementwise_sub(input, label)), reduction)


def smooth_l1_loss(
    input: Tensor,
    label: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    name: str | None = None,
) -> Any:
    """Half the squared difference up to `delta`, and straight on from there.

    >>> paddle.nn.functional.smooth_l1_loss(paddle.to_tensor([3.0]), paddle.to_tensor([1.0])).item()
    1.5
    """
    return reduced(ops.huber_loss(input, label, delta=float(delta), _outputs=("Out",)), reduction)


def log_loss(input: Tensor, label: Tensor, epsilon: float = 0.0001, name: str | None = None) -> Any:
    """`-label * log(input) - (1 - label) * log(1 - input)`, kept `epsilon` away from log(0).

    >>> half, one = paddle.to_tensor([[0.5]]), paddle.to_tensor([[1.0]])
    >>> round(paddle.nn.functional.log_loss(half, one).item(), 4)
    0.6929
    """
    return ops.log_loss(input, label, epsilon=real(epsilon, "epsilon"))


def binary_cross_entropy(
    input: Tensor,
    label: Tensor,
    weight: Any = None,
    reduction: str = "mean",
    name: str | None = None,
) -> Any:
    """The cross entropy of probabilities and labels of two classes.

    >>> round(paddle.nn.functional.binary_cross_entropy(paddle.to_tensor([0.5]), paddle.to_tensor([1.0])).item(), 4)
    0.6931
    """
    out = ops.bce_loss(input, label)
    return reduced(out if weight is None else ops.elementwise_mul(out, weight), reduction)


def binary_cross_entropy_with_logits(
    logit: Tensor,
    label: Tensor,
    weight: Any = None,
    reduction: str = "mean",
    pos_weight: Any = None,
    name: str | None = None,
) -> Any:
    """The cross entropy of logits and labels of two classes; `pos_weight` weighs the label 1.

    >>> round(paddle.nn.functional.binary_cross_entropy_with_logits(paddle.zeros([1]), paddle.ones([1])).item(), 4)
    0.6931
    """
    # As Paddle's kernel has it: the weight of the label 1 is on the logarithm only.
    scale = None if pos_weight is None else label * (pos_weight - 1.0) + 1.0
    out = ops.sigmoid_cross_entropy_with_logits(logit, label, scale)
    return reduced(out if weight is None else ops.elementwise_mul(out, weight), reduction)


def kl_div(input: Tensor, label: Tensor, reduction: str = "mean", name: str | None = None) -> Any:
    """The divergence of log-probabilities from probabilities.

    >>> paddle.nn.functional.kl_div(paddle.zeros([1, 2]), paddle.ones([1, 2])).item()
    0.0
    """
    if reduction not in ("none", "mean", "sum", "batchmean"):
        raise ValueError(f"`reduction` must be none, mean, sum or batchmean, but is {reduction!r}")
    return ops.kldiv_loss(input, label, reduction=reduction)


def margin_ranking_loss(
    input: Tensor,
    other: Tensor,
    label: Tensor,
    margin: float = 0.0,
    reduction: str = "mean",
    name: str | None = None,
) -> Any:
    """How far `input` fails to be over (label 1) or under (label -1) `other`.

    >>> paddle.nn.functional.margin_ranking_loss(paddle.ones([1]), paddle.zeros([1]), -paddle.ones([1])).item()
    1.0
    """
    require_tensor(input, "input")
    require_tensor(other, "other")
    out = ops.scale((other - input) * label, bias=real(margin, "margin"))
    return reduced(ops.relu(out), reduction)


def hinge_embedding_loss(
    input: Tensor,
    label: Tensor,
    margin: float = 1.0,
    reduction: str = "mean",
    name: str | None = None,
) -> Any:
    """`input` where the label is 1, what it lacks to the margin where it is -1.

    >>> paddle.nn.functional.hinge_embedding_loss(paddle.zeros([1]), -paddle.ones([1])).item()
    1.0
    """
    zero = ops.fill_any_like(input, value=0.0)
    away = ops.relu(ops.scale(input, scale=-1.0, bias=real(margin, "margin")))
    return reduced(
        ops.where(label == 1.0, input, zero) + ops.where(label == -1.0, away, zero), reduction
    )


def soft_margin_loss(
    input: Tensor, label: Tensor, reduction: str = "mean", name: str | None = None
) -> Any:
    """log(1 + exp(-label * input)).

    >>> round(paddle.nn.functional.soft_margin_loss(paddle.zeros([1]), paddle.ones([1])).item(), 4)
    0.6931
    """
    require_tensor(input, "input")
    return reduced(
        ops.log(ops.scale(ops.exp(-label.astype(input.dtype) * input), bias=1.0)), reduction
    )


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    label: Tensor,
    margin: float = 0,
    reduction: str = "mean",
    name: str | None = None,
) -> Any:
    """One less the cosine where the label is 1, the cosine over the margin where it is -1.

    >>> paddle.nn.functional.cosine_embedding_loss(paddle.ones([1, 2]), paddle.ones([1, 2]), paddle.ones([1])).item()
    0.0
    """
    product, first, second = (
        ops.reduce_sum(a * b, dim=[-1])
        for a, b in ((input1, input2), (input1, input1), (input2, input2))
    )
    cosine = product / ops.sqrt(ops.scale(first, bias=1e-12) * ops.scale(second, bias=1e-12))
    zero = ops.fill_any_like(cosine, value=0.0)
    far = ops.relu(ops.scale(cosine, bias=-real(margin, "margin")))
    return reduced(
        ops.where(label == 1, 1.0 - cosine, zero) + ops.where(label == -1, far, zero), reduction
    )


def triplet_margin_loss(
    input: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: Any = 2,
    epsilon: float = 1e-06,
    swap: bool = False,
    reduction: str = "mean",
    name: str | None = None,
) -> Any:
    """How far the positive example fails to be nearer than the negative one by the margin.

    >>> paddle.nn.functional.triplet_margin_loss(paddle.ones([1, 2]), paddle.ones([1, 2]), paddle.ones([1, 2])).item()
    1.0
    """
    near, far = (
        pairwise_distance(input, positive, p, epsilon),
        pairwise_distance(input, negative, p, epsilon),
    )
    if swap:
        far = ops.elementwise_min(far, pairwise_distance(positive, negative, p, epsilon))
    return reduced(ops.relu(ops.scale(near - far, bias=real(margin, "margin"))), reduction)


def multi_label_soft_margin_loss(
    input: Tensor,
    label: Tensor,
    weight: Any = None,
    reduction: str = "mean",
    name: str | None = None,
) -> Any:
    """The mean cross entropy over classes that may hold together.

    >>> round(paddle.nn.functional.multi_label_soft_margin_loss(paddle.zeros([1, 2]), paddle.ones([1, 2])).item(), 4)
    0.6931
    """
    require_tensor(input, "input")
    out = label * ops.softplus(-input) + (1.0 - label) * ops.softplus(input)
    out = out if weight is None else out * weight
    return reduced(ops.reduce_mean(out, dim=[-1]), reduction)


def sigmoid_focal_loss(
    logit: Tensor,
    label: Tensor,
    normalizer: Any = None,
    alpha: float = 0.25,
    gamma: float = 2.0,
    reduction: str = "sum",
    name: str | None = None,
) -> Any:
    """Cross entropy of two classes that weighs easy examples less.

    >>> score, label = paddle.zeros([1]), paddle.ones([1])
    >>> round(paddle.nn.functional.sigmoid_focal_loss(score, label).item(), 4)
    0.0433
    """
    out = ops.sigmoid_cross_entropy_with_logits(logit, label)
    p = ops.sigmoid(logit)
    right = p * label + (1.0 - p) * (1.0 - label)
    weight = label * alpha + (1.0 - label) * (1.0 - alpha)
    out = out * weight * ops.pow(1.0 - right, factor=float(gamma))
    return reduced(out if normalizer is None else out / normalizer, reduction)


def dice_loss(input: Tensor, label: Tensor, epsilon: float = 1e-05, name: str | None = None) -> Any:
    """One less twice the overlap of probabilities and labels, over their sum.

    >>> score, label = paddle.to_tensor([[0.5, 0.5]]), paddle.to_tensor([[1]])
    >>> round(paddle.nn.functional.dice_loss(score, label).item(), 4)
    0.5
    """
    require_tensor(input, "input")
    label = ops.one_hot_v2(ops.squeeze2(label, axes=[-1]), depth=input.shape[-1])
    dims = list(range(1, input.ndim))
    overlap = ops.reduce_sum(input * label, dim=dims)
    total = ops.reduce_sum(input, dim=dims) + ops.reduce_sum(label, dim=dims)
    return ops.reduce_mean(1.0 - overlap * 2.0 / (total + epsilon), reduce_all=True, dim=[])


def npair_loss(anchor: Tensor, positive: Tensor, labels: Tensor, l2_reg: float = 0.002) -> Any:
    """Cross entropy of similarities of pairs, and a penalty on their lengths.

    >>> x, y = paddle.ones([2, 2]), paddle.ones([2, 2])
    >>> round(paddle.nn.functional.npair_loss(x, y, paddle.to_tensor([0.0, 1.0])).item(), 4)
    0.6951
    """
    same = ops.cast(
        ops.unsqueeze2(labels, axes=[1]) == labels, in_dtype="bool", out_dtype="float32"
    )
    same = same / ops.reduce_sum(same, dim=[1], keep_dim=True)
    lengths = [
        ops.reduce_mean(ops.reduce_sum(ops.square(v), dim=[1]), reduce_all=True, dim=[])
        for v in (anchor, positive)
    ]
    _, entropy = ops.softmax_with_cross_entropy(
        ops.matmul_v2(anchor, positive, trans_y=True), same, soft_label=True
    )
    return ops.scale(lengths[0] + lengths[1], scale=0.25 * l2_reg) + ops.reduce_mean(
        entropy, reduce_all=True, dim=[]
    )


def softmax_with_cross_entropy(
    logits: Tensor,
    label: Tensor,
    soft_label: bool = False,
    ignore_index: int = -100,
    numeric_stable_mode: bool = True,
    return_softmax: bool = False,
    axis: Any = -1,
) -> Any:
    """The cross entropy of each row of logits, and the probabilities on request.

    >>> round(paddle.nn.functional.softmax_with_cross_entropy(paddle.zeros([1, 2]), paddle.to_tensor([[1]])).item(), 4)
    0.6931
    """
    require_tensor(logits, "logits")
    if logits.ndim == label.ndim + 1:
        label = ops.unsqueeze2(label, axes=[axis])
    softmax, loss = ops.softmax_with_cross_entropy(
        logits,
        label,
        soft_label=soft_label,
        ignore_index=ignore_index,
        numeric_stable_mode=numeric_stable_mode,
        axis=axis,
    )
    return (loss, softmax) if return_softmax else loss


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """The mean or the sum of a loss, or the loss itself."""
    if reduction == "mean":
        return ops.reduce_mean(loss, reduce_all=True, dim=[])
    if reduction == "sum":
        return ops.reduce_sum(loss, reduce_all=True, dim=[])
    if reduction != "none":
        raise ValueError(f"`reduction` must be mean, sum or none, but is {reduction!r}")
    return loss


def hsigmoid_loss(
    input: Tensor,
    label: Tensor,
    num_classes: int,
    weight: Tensor,
    bias: Tensor | None = None,
    path_table: Tensor | None = None,
    path_code: Tensor | None = None,
    is_sparse: bool = False,
    name: str | None = None,
) -> Any:
    """The cost of finding a class by the decisions on its way through a binary tree.

    Without `path_table` and `path_code` the tree is a complete one with `num_classes` leaves; they
    give for each row the nodes on its way, and which side it takes there, a negative node ending
    it. A row of `weight`, and an element of `bias`, belongs to each node. As in Paddle, a way that
    is shorter than the longest costs `ln(2)` for each decision that it lacks.

    >>> x, label = paddle.ones([2, 3]), paddle.to_tensor([[0], [3]])
    >>> loss = paddle.nn.functional.hsigmoid_loss(x, label, 4, paddle.zeros([3, 3]))
    >>> [round(each, 4) for each in loss.flatten().tolist()]
    [1.3863, 1.3863]
    """
    if num_classes < 2:
        raise ValueError(f"`num_classes` must be 2 or more, not {num_classes}")
    return ops.hierarchical_sigmoid(
        input,
        weight,
        label,
        path_table,
        path_code,
        bias,
        num_classes=num_classes,
        is_sparse=is_sparse,
        _outputs=("Out", "PreOut"),
    )[0]


set_public_names(__name__, but="reduced")
