"""Metrics that are kept over batches on the host, in numpy: update, accumulate, reset."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from .._core import ops


class Metric(abc.ABC):
    """What metrics derive from: `update` with each batch, `accumulate` for the value so far.

    `compute` may prepare a batch on the device; what it returns is passed to `update`.

    >>> from bireme.metric import Metric
    >>> class Count(Metric):
    ...     def reset(self):
    ...         self.n = 0
    ...     def update(self, values):
    ...         self.n += len(values)
    ...     def accumulate(self):
    ...         return self.n
    ...     def name(self):
    ...         return "count"
    >>> Count().compute(1, 2)
    (1, 2)
    """

    @abc.abstractmethod
    def reset(self) -> None:
        """Forgets all batches."""

    @abc.abstractmethod
    def update(self, *args: Any) -> Any:
        """Takes a batch into account."""

    @abc.abstractmethod
    def accumulate(self) -> Any:
        """The value over all batches since `reset`."""

    @abc.abstractmethod
    def name(self) -> Any:
        """The name, or names, to show the value with."""

    def compute(self, *args: Any) -> Any:
        """Prepares a batch for `update`; passes it on unless a metric has its own."""
        return args


class Accuracy(Metric):
    """The share of samples whose label is among the `k` highest predictions, for each `k`.

    >>> import numpy as np
    >>> from bireme.metric import Accuracy
    >>> metric = Accuracy(topk=(1, 2))
    >>> metric.update(np.array([[1.0, 0.0], [0.0, 1.0]]))
    [0.5, 1.0]
    >>> metric.accumulate(), metric.name()
    ([0.5, 1.0], ['acc_top1', 'acc_top2'])
    """

    def __init__(
        self, topk: Sequence[int] = (1,), name: str | None = None, *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.topk = topk
        self.maxk = max(topk)
        base = name or "acc"
        self._name = [base] if self.maxk == 1 else [f"{base}_top{k}" for k in topk]
        self.reset()

    def compute(self, pred: Any, label: Any, *args: Any) -> Any:
        """1 where the label is the k-th highest prediction, as a float tensor `[..., max k]`."""
        _, order = ops.argsort(pred, axis=-1, descending=True)
        last = len(order.shape) - 1
        highest = ops.slice(order, axes=[last], starts=[0], ends=[self.maxk])
        if len(label.shape) == 1 or (len(label.shape) == 2 and label.shape[-1] == 1):
            label = ops.reshape2(label, shape=[-1, 1])
        elif label.shape[-1] != 1:
            label = ops.arg_max(label, axis=-1, keepdims=True)
        if label.dtype != "int64":
            label = ops.cast(label, out_dtype="int64", in_dtype=label.dtype)
        return ops.cast(ops.equal(highest, label), out_dtype="float32", in_dtype="bool")

    def update(self, correct: Any, *args: Any) -> float | list[float]:
        """Takes what `compute` returns; returns the accuracy of this batch alone."""
        correct = np.asarray(correct)
        samples = int(np.prod(correct.shape[:-1]))
        shares = []
        for index, k in enumerate(self.topk):
            hits = correct[..., :k].sum()
            shares.append(float(hits) / samples)
            self.total[index] += hits
            self.count[index] += samples
        return shares[0] if len(self.topk) == 1 else shares

    def reset(self) -> None:
        """Forgets all batches."""
        self.total: list[Any] = [0.0] * len(self.topk)
        self.count = [0] * len(self.topk)

    def accumulate(self) -> float | list[float]:
        """The accuracy since `reset`, a list of them when there are several `k`."""
        shares = [float(t) / c if c > 0 else 0.0 for t, c in zip(self.total, self.count)]
        return shares[0] if len(self.topk) == 1 else shares

    def name(self) -> list[str]:
        """One name for each `k`."""
        return self._name


class Precision(Metric):
    """Of the samples predicted to be 1 (at least 0.5), the share that is.

    >>> import numpy as np
    >>> from bireme.metric import Precision
    >>> metric = Precision()
    >>> metric.update(np.array([0.9, 0.8, 0.1]), np.array([1, 0, 1]))
    >>> metric.accumulate()
    0.5
    """

    def __init__(self, name: str = "precision", *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._name = name
        self.reset()

    def update(self, preds: Any, labels: Any) -> None:
        """Takes predictions in [0, 1] and labels 0 or 1, one of each for a sample."""
        predicted, actual = _columns(preds, labels)
        positive = np.floor(predicted + 0.5).astype("int32") == 1
        hits = int(np.count_nonzero(actual[positive] == 1))
        self.tp += hits
        self.fp += int(np.count_nonzero(positive)) - hits

    def reset(self) -> None:
        """Forgets all batches."""
        self.tp = 0
        self.fp = 0

    def accumulate(self) -> float:
        """The precision since `reset`, 0 when nothing was predicted to be 1."""
        total = self.tp + self.fp
        return float(self.tp) / total if total else 0.0

    def name(self) -> str:
        """The name that was given."""
        return self._name


class Recall(Metric):
    """Of the samples that are 1, the share that was predicted to be (more than 0.5).

    >>> import numpy as np
    >>> from bireme.metric import Recall
    >>> metric = Recall()
    >>> metric.update(np.array([0.9, 0.8, 0.1]), np.array([1, 0, 1]))
    >>> metric.accumulate()
    0.5
    """

    def __init__(self, name: str = "recall", *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._name = name
        self.reset()

    def update(self, preds: Any, labels: Any) -> None:
        """Takes predictions in [0, 1] and labels 0 or 1, one of each for a sample."""
        predicted, actual = _columns(preds, labels)
        relevant = actual == 1
        hits = int(np.count_nonzero(np.rint(predicted[relevant]).astype("int32") == 1))
        self.tp += hits
        self.fn += int(np.count_nonzero(relevant)) - hits

    def reset(self) -> None:
        """Forgets all batches."""
        self.tp = 0
        self.fn = 0

    def accumulate(self) -> float:
        """The recall since `reset`, 0 when no sample is 1."""
        total = self.tp + self.fn
        return float(self.tp) / total if total else 0.0

    def name(self) -> str:
        """The name that was given."""
        return self._name


class Auc(Metric):
    """The area under the ROC curve, from counts in `num_thresholds + 1` buckets of predictions.

    `curve` must be `ROC`.

    >>> import numpy as np
    >>> from bireme.metric import Auc
    >>> metric = Auc()
    >>> metric.update(np.array([[0.2, 0.8], [0.7, 0.3], [0.4, 0.6]]), np.array([1, 0, 1]))
    >>> metric.accumulate()
    1.0
    """

    def __init__(
        self,
        curve: str = "ROC",
        num_thresholds: int = 4095,
        name: str = "auc",
        *args: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        if curve != "ROC":
            raise ValueError(f"`curve` must be `ROC`, got `{curve}`")
        self._curve = curve
        self._num_thresholds = num_thresholds
        self._name = name
        self.reset()

    def update(self, preds: Any, labels: Any) -> None:
        """Takes `preds` `[n, 2]`, the chance of 1 in the second column, and `n` labels 0 or 1."""
        labels = _array(labels, "labels")
        chances = _array(preds, "preds")[: len(labels), 1].astype("float64")
        # float64 as numpy 1 has it for a float32 times a whole number; this decides the bucket.
        scaled = chances * self._num_thresholds
        outside = ~((scaled > -1) & (scaled < self._num_thresholds + 1))
        if outside.any():
            raise ValueError(
                f"`Auc` takes predictions from 0 to 1, got {chances[outside][0]}: "
                "is a softmax or sigmoid missing?"
            )
        buckets = scaled.astype("int64")
        positive = labels.reshape(len(labels), -1)[:, 0] != 0
        size = self._num_thresholds + 1
        self._stat_pos += np.bincount(buckets[positive], minlength=size)
        self._stat_neg += np.bincount(buckets[~positive], minlength=size)

    def accumulate(self) -> float:
        """The area since `reset`, 0 while one of the classes is missing."""
        positives = np.cumsum(self._stat_pos[::-1])
        before = positives - self._stat_pos[::-1]
        area = float(np.sum(self._stat_neg[::-1] * (positives + before) / 2.0))
        total, others = float(positives[-1]), float(self._stat_neg.sum())
        return area / total / others if total > 0.0 and others > 0.0 else 0.0

    def reset(self) -> None:
        """Forgets all batches."""
        self._stat_pos = np.zeros(self._num_thresholds + 1)
        self._stat_neg = np.zeros(self._num_thresholds + 1)

    def name(self) -> str:
        """The name that was given."""
        return self._name


def accuracy(
    input: Any,
    label: Any,
    k: int = 1,
    correct: Any = None,
    total: Any = None,
    name: str | None = None,
) -> Any:
    """The share of rows of `input` whose `label` `[n, 1]` is among the `k` highest, as a tensor.

    `correct` and `total` are tensors that receive the counts. `name` has no meaning here.

    >>> import bireme
    >>> scores = bireme.to_tensor([[0.1, 0.9], [0.8, 0.2]])
    >>> float(bireme.metric.accuracy(scores, bireme.to_tensor([[1], [1]])))
    0.5
    """
    if label.dtype == "int32":
        label = ops.cast(label, out_dtype="int64", in_dtype="int32")
    highest, indices = ops.top_k_v2(input, k=k)
    into = {"Correct": correct, "Total": total}
    given = {slot: tensor for slot, tensor in into.items() if tensor is not None}
    return ops.accuracy(highest, indices, label, _into=given, _outputs=("Accuracy",))


def _array(values: Any, name: str) -> np.ndarray:
    if not isinstance(values, (np.ndarray, np.generic, _core.Tensor)):
        raise ValueError(  # noqa: TRY004 - as Paddle
            f"`{name}` must be a numpy array or a tensor, got {type(values).__name__}"
        )
    return np.asarray(values)


def _columns(preds: Any, labels: Any) -> tuple[np.ndarray, np.ndarray]:
    actual = _array(labels, "labels")
    predicted = _array(preds, "preds")[: len(actual)]
    count = len(actual)
    if predicted.size != count or actual.size != count:
        raise ValueError(
            "`preds` and `labels` must have one value for each sample, got shapes "
            f"{list(predicted.shape)} and {list(actual.shape)}"
        )
    return predicted.reshape(count), actual.reshape(count)
