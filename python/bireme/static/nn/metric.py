"""Metrics inside a program: their counts are variables that outlive a run."""

from __future__ import annotations

from ... import _core
from ..._names import set_public_names
from ..program import Variable, generated_name

ops = _core.ops


def accuracy(
    input: Variable,
    label: Variable,
    k: int = 1,
    correct: Variable | None = None,
    total: Variable | None = None,
) -> Variable:
    """The share of rows whose label is among the `k` largest columns.

    `correct` and `total`, where given, get the two counts.

    >>> import bireme as paddle
    >>> scores = paddle.to_tensor([[0.1, 0.9], [0.8, 0.2]])
    >>> paddle.static.accuracy(scores, paddle.to_tensor([[1], [1]])).item()
    0.5
    """
    values, indices = ops.top_k_v2(input, k=k, sorted=False)
    into = {slot: var for slot, var in (("Correct", correct), ("Total", total)) if var is not None}
    return ops.accuracy(values, indices, label, _into=into, _outputs=("Accuracy",))


def auc(
    input: Variable,
    label: Variable,
    curve: str = "ROC",
    num_thresholds: int = 2**12 - 1,
    topk: int = 1,
    slide_steps: int = 1,
    ins_tag_weight: Variable | None = None,
) -> tuple[Variable, Variable, list[Variable]]:
    """The area under the ROC curve: of all batches, of the last ones, and the counts behind them.

    The second value is over the last `slide_steps` batches; with 0 over all. The counts are, in this order: of the
    last batches positive and negative, of all batches positive and negative.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
    ...     score = paddle.static.data("score", [None, 2])
    ...     label = paddle.static.data("label", [None, 1], "int64")
    ...     total, batch, counts = paddle.static.auc(score, label)
    >>> len(counts)
    4
    >>> paddle.disable_static()
    """
    if curve != "ROC":
        raise NotImplementedError(f"`curve` must be ROC in this version, not {curve!r}")
    if topk != 1:
        raise NotImplementedError(f"`topk` must be 1, as in Paddle's op, not {topk!r}")
    # Without steps nothing slides: it is the AUC of all batches, too.
    window = (1 + slide_steps) * (num_thresholds + 1) + 1 if slide_steps else num_thresholds + 1
    recent = [_counts([window]) for _ in range(2)]
    overall = [_counts([1, num_thresholds + 1]) for _ in range(2)]

    def area(counts: list[Variable], steps: int) -> Variable:
        return ops.auc(
            input,
            label,
            *counts,
            ins_tag_weight,
            curve=curve,
            num_thresholds=num_thresholds,
            slide_steps=steps,
            _into={"StatPosOut": counts[0], "StatNegOut": counts[1]},
            _outputs=("AUC",),
        )

    batch = area(recent, slide_steps)
    return area(overall, 0), batch, [*recent, *overall]


def ctr_metric_bundle(
    input: Variable, label: Variable, ins_tag_weight: Variable | None = None
) -> tuple[Variable, ...]:
    """Sums over all batches for the metrics of click models.

    Returns the sums of squared errors, absolute errors, predictions, sigmoids of predictions,
    positives, and the number of samples; divide them by the last one.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
    ...     score = paddle.static.data("score", [None, 1])
    ...     label = paddle.static.data("label", [None, 1])
    ...     sums = paddle.static.ctr_metric_bundle(score, label)
    >>> len(sums)
    6
    >>> paddle.disable_static()
    """
    if label.dtype != input.dtype:
        label = ops.cast(label, in_dtype=label.dtype, out_dtype=input.dtype)
    error = ops.elementwise_sub(input, label)
    ones = ops.fill_any_like(label, value=1.0)
    sums = [ops.square(error), ops.abs(error), input, ops.sigmoid(input), label, ones]
    sums = [ops.reshape2(ops.reduce_sum(each, reduce_all=True), shape=[1]) for each in sums]
    if ins_tag_weight is not None:
        # As Paddle does: the weight of the first sample says whether the batch is real.
        weight = ops.slice(ins_tag_weight, axes=[0], starts=[0], ends=[1])
        weight = ops.reshape2(weight, shape=[1])
        for counted in (3, 5):
            sums[counted] = ops.elementwise_mul(sums[counted], weight)
    return tuple(_accumulated(each) for each in sums)


def _counts(shape: list[int]) -> Variable:
    return _core.create_global_var(shape, 0, "int64", True, generated_name())


def _accumulated(batch_sum: Variable) -> Variable:
    total = _core.create_global_var([1], 0.0, "float32", True, generated_name())
    # The engine adds in place for gradients only, so the sum takes the way over a temporary.
    ops.assign(ops.elementwise_add(batch_sum, total), _into={"Out": total})
    return total


set_public_names(__name__)
