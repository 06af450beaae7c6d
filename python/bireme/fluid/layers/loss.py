"""Losses of Paddle 1.x: a column with the loss of each row, unless they say otherwise."""

from __future__ import annotations

import math
from typing import Any

from ... import _core
from ..._names import set_public_names
from ...nn.functional import hsigmoid_loss as _hsigmoid_loss
from ...static.nn.parameters import LayerNames as _LayerNames
from ...tensor.arguments import require_tensor as _require_tensor

Variable = Any
_ops = _core.ops


def cross_entropy(
    input: Variable, label: Variable, soft_label: bool = False, ignore_index: int = -100
) -> Variable:
    """Minus the logarithm of the probability that `input` gives to the label.

    `input` holds probabilities (after a softmax), `label` the number of a class in a last
    dimension of 1, or with `soft_label` a probability for each class.

    >>> probabilities = paddle.to_tensor([[0.5, 0.5]])
    >>> loss = paddle.fluid.layers.cross_entropy(probabilities, paddle.to_tensor([[1]]))
    >>> round(loss.item(), 4)
    0.6931
    """
    if soft_label:
        return _ops.cross_entropy(input, label, soft_label=True, ignore_index=ignore_index)
    return _ops.cross_entropy2(input, label, ignore_index=ignore_index, _outputs=("Y",))


def softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    soft_label: bool = False,
    ignore_index: int = -100,
    numeric_stable_mode: bool = True,
    return_softmax: bool = False,
    axis: int = -1,
) -> Any:
    """The cross entropy of the softmax of `logits`, and with `return_softmax` that too.

    >>> logits = paddle.to_tensor([[0.0, 0.0]])
    >>> loss = paddle.fluid.layers.softmax_with_cross_entropy(logits, paddle.to_tensor([[1]]))
    >>> round(loss.item(), 4)
    0.6931
    """
    softmax, loss = _ops.softmax_with_cross_entropy(
        logits,
        label,
        soft_label=soft_label,
        ignore_index=ignore_index,
        numeric_stable_mode=numeric_stable_mode,
        axis=axis,
    )
    return (loss, softmax) if return_softmax else loss


def sigmoid_cross_entropy_with_logits(
    x: Variable,
    label: Variable,
    ignore_index: int = -100,
    name: str | None = None,
    normalize: bool = False,
) -> Variable:
    """The cross entropy of the sigmoid of each element, whose label is a probability.

    >>> logit, label = paddle.to_tensor([[0.0]]), paddle.to_tensor([[1.0]])
    >>> loss = paddle.fluid.layers.sigmoid_cross_entropy_with_logits(logit, label)
    >>> round(loss.item(), 4)
    0.6931
    """
    return _ops.sigmoid_cross_entropy_with_logits(
        x, label, ignore_index=ignore_index, normalize=normalize
    )


def square_error_cost(input: Variable, label: Variable) -> Variable:
    """`(input - label) ** 2` of each element.

    >>> paddle.fluid.layers.square_error_cost(paddle.ones([1, 1]), paddle.zeros([1, 1])).tolist()
    [[1.0]]
    """
    return _ops.square(_ops.elementwise_sub(input, label))


def mse_loss(input: Variable, label: Variable) -> Variable:
    """The mean of the squared errors.

    >>> paddle.fluid.layers.mse_loss(paddle.ones([2, 1]), paddle.zeros([2, 1])).item()
    1.0
    """
    return _ops.mean(square_error_cost(input, label))


def log_loss(
    input: Variable, label: Variable, epsilon: float = 1e-4, name: str | None = None
) -> Variable:
    """The cross entropy of a probability and a label of 0 or 1, both shifted by `epsilon`.

    >>> half, label = paddle.to_tensor([[0.5]]), paddle.to_tensor([[1.0]])
    >>> round(paddle.fluid.layers.log_loss(half, label).item(), 3)
    0.693
    """
    return _ops.log_loss(input, label, epsilon=epsilon)


def huber_loss(input: Variable, label: Variable, delta: float) -> Variable:
    """Half the squared error up to `delta`, straight from there.

    >>> paddle.fluid.layers.huber_loss(paddle.ones([1, 1]), paddle.zeros([1, 1]), 1.0).tolist()
    [[0.5]]
    """
    return _ops.huber_loss(input, label, delta=delta, _outputs=("Out",))


def smooth_l1(
    x: Variable,
    y: Variable,
    inside_weight: Variable | None = None,
    outside_weight: Variable | None = None,
    sigma: float | None = None,
) -> Variable:
    """The absolute error, rounded off near zero, summed over each row.

    >>> paddle.fluid.layers.smooth_l1(paddle.ones([1, 2]), paddle.zeros([1, 2])).tolist()
    [[1.0]]
    """
    bend = (sigma or 1.0) ** 2
    error = _ops.elementwise_sub(x, y)
    if inside_weight is not None:
        error = _ops.elementwise_mul(error, inside_weight)
    size = _ops.abs(error)
    # Up to 1/bend the loss is bend/2 * size**2, beyond it goes on with slope 1.
    curved = _ops.clip(size, min=0.0, max=1.0 / bend)
    loss = _ops.elementwise_add(
        _ops.scale(_ops.square(curved), scale=bend / 2), _ops.elementwise_sub(size, curved)
    )
    if outside_weight is not None:
        loss = _ops.elementwise_mul(loss, outside_weight)
    rows = _ops.flatten2(loss, axis=1)
    return _ops.reduce_sum(rows, dim=[1], keep_dim=True)


def kldiv_loss(
    x: Variable, target: Variable, reduction: str = "mean", name: str | None = None
) -> Variable:
    """The Kullback-Leibler divergence of `target` from the log-probabilities `x`.

    >>> paddle.fluid.layers.kldiv_loss(paddle.zeros([1, 1]), paddle.ones([1, 1])).item()
    0.0
    """
    if reduction not in ("mean", "sum", "batchmean", "none"):
        raise ValueError(f"`reduction` must be mean, sum, batchmean or none, not {reduction!r}")
    return _ops.kldiv_loss(x, target, reduction=reduction)


def rank_loss(
    label: Variable, left: Variable, right: Variable, name: str | None = None
) -> Variable:
    """RankNet's loss for pairs: `log(1 + exp(left - right)) - label * (left - right)`.

    >>> one = paddle.ones([1, 1])
    >>> round(paddle.fluid.layers.rank_loss(one, one, one).item(), 4)
    0.6931
    """
    gap = _ops.elementwise_sub(left, right)
    return _ops.elementwise_sub(_ops.softplus(gap), _ops.elementwise_mul(label, gap))


def margin_rank_loss(
    label: Variable,
    left: Variable,
    right: Variable,
    margin: float = 0.1,
    name: str | None = None,
) -> Variable:
    """`max(0, margin - label * (left - right))` for pairs with a label of 1 or -1.

    >>> one = paddle.ones([1, 1])
    >>> round(paddle.fluid.layers.margin_rank_loss(one, one, one).item(), 4)
    0.1
    """
    gap = _ops.elementwise_mul(label, _ops.elementwise_sub(left, right))
    return _ops.relu(_ops.scale(gap, scale=-1.0, bias=margin))


def bpr_loss(input: Variable, label: Variable, name: str | None = None) -> Variable:
    """The loss of pairwise ranking: how far the label's score is over those of all others.

    >>> scores = paddle.to_tensor([[1.0, 1.0, 1.0]])
    >>> round(paddle.fluid.layers.bpr_loss(scores, paddle.to_tensor([[2]])).item(), 4)
    0.6931
    """
    gaps = _ops.softplus(_ops.elementwise_sub(input, _ops.index_sample(input, label)))
    # The label's own gap is 0 and adds log(2), which is taken off again.
    total = _ops.reduce_sum(gaps, dim=[1], keep_dim=True)
    others = input.shape[1] - 1
    return _ops.scale(total, scale=1.0 / others, bias=-math.log(2.0) / others)


def label_smooth(
    label: Variable,
    prior_dist: Variable | None = None,
    epsilon: float = 0.1,
    dtype: Any = "float32",
    name: str | None = None,
) -> Variable:
    """One-hot labels with `epsilon` of each spread evenly, or as `prior_dist` says.

    >>> paddle.fluid.layers.label_smooth(paddle.to_tensor([[0.0, 1.0]]), epsilon=0.5).tolist()
    [[0.25, 0.75]]
    """
    _require_tensor(label, "label")
    if label.dtype != dtype:
        label = _ops.cast(label, in_dtype=label.dtype, out_dtype=dtype)
    if prior_dist is None:
        return _ops.scale(label, scale=1.0 - epsilon, bias=epsilon / label.shape[-1])
    kept = _ops.scale(label, scale=1.0 - epsilon)
    return _ops.elementwise_add(kept, _ops.scale(prior_dist, scale=epsilon))


def hsigmoid(
    input: Variable,
    label: Variable,
    num_classes: int,
    param_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
    path_table: Variable | None = None,
    path_code: Variable | None = None,
    is_custom: bool = False,
    is_sparse: bool = False,
) -> Variable:
    """The cost of finding a class by the decisions on its way through a binary tree.

    With `is_custom` the ways are given with each batch, and `num_classes` is how many nodes decide.

    >>> x = paddle.fluid.layers.data("x", [3])
    >>> label = paddle.fluid.layers.data("label", [1], dtype="int64")
    >>> paddle.fluid.layers.hsigmoid(x, label, 6).shape
    (-1, 1)
    """
    if is_custom != (path_table is not None) or is_custom != (path_code is not None):
        raise ValueError("`path_table` and `path_code` belong to `is_custom`, which needs both")
    layer = _LayerNames("hierarchical_sigmoid", name)
    nodes = num_classes if is_custom else num_classes - 1
    weight = layer.weight(param_attr, [nodes, input.shape[1]], input.dtype)
    bias = layer.bias(bias_attr, [nodes, 1], input.dtype)
    return _hsigmoid_loss(
        input,
        label,
        num_classes,
        weight,
        bias,
        path_table,
        path_code,
        # As in Paddle: of a complete tree most rows are near the root, and in every batch.
        is_sparse and is_custom,
    )


def sampled_softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    num_samples: int,
    num_true: int = 1,
    remove_accidental_hits: bool = True,
    use_customized_samples: bool = False,
    customized_samples: Variable | None = None,
    customized_probabilities: Variable | None = None,
    seed: int = 0,
) -> Variable:
    """The cross entropy over the classes in `label` and `num_samples` others drawn at random.

    Small numbers are drawn more often. With `use_customized_samples` the classes of each row, those
    of its label first, and how probable they were are given.

    >>> logits = paddle.fluid.layers.data("logits", [100])
    >>> label = paddle.fluid.layers.data("label", [1], dtype="int64")
    >>> paddle.fluid.layers.sampled_softmax_with_cross_entropy(logits, label, 10).shape
    (-1, 1)
    """
    given: list[Any] = [None, None]
    into: dict[str, Any] = {}
    if use_customized_samples:
        given = [customized_samples, customized_probabilities]
        if None in given:
            raise ValueError(
                "`use_customized_samples` needs `customized_samples` and `customized_probabilities`"
            )
        into = {"Samples": customized_samples, "Probabilities": customized_probabilities}
    _, _, taken, places = _ops.sample_logits(
        logits,
        label,
        *given,
        num_samples=num_samples,
        remove_accidental_hits=remove_accidental_hits,
        use_customized_samples=use_customized_samples,
        seed=seed,
        _outputs=("Samples", "Probabilities", "SampledLogits", "SampledLabels"),
        _into=into,
    )
    # The classes of the label are the first ones of each row.
    target = _ops.one_hot_v2(places, depth=num_true + num_samples, dtype="float32")
    target = _ops.reduce_sum(target, dim=[1])
    _, loss = _ops.softmax_with_cross_entropy(taken, target, soft_label=True)
    return loss / num_true


set_public_names(__name__)
