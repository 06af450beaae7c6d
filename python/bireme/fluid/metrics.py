"""Metrics that a script computes from fetched values, under their 1.x names."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import metric as _metric
from .._missing import missing_names


class MetricBase:
    """Base class: `update` takes a batch, `eval` says the value so far, `reset` starts over.

    >>> paddle.fluid.metrics.MetricBase("mine").eval()
    Traceback (most recent call last):
    ...
    NotImplementedError: `MetricBase` must define `eval()`
    """

    def __init__(self, name: str | None = None) -> None:
        self._name = name or type(self).__name__

    def __str__(self) -> str:
        return self._name

    def update(self, preds: Any, labels: Any) -> None:
        """Counts a batch."""
        raise NotImplementedError(f"`{type(self).__name__}` must define `update()`")

    def eval(self) -> Any:
        """The value over all batches since the last `reset`."""
        raise NotImplementedError(f"`{type(self).__name__}` must define `eval()`")

    def reset(self) -> None:
        """Forgets all batches."""
        raise NotImplementedError(f"`{type(self).__name__}` must define `reset()`")


class Accuracy(MetricBase):
    """The mean of fetched accuracies, weighted by their batch sizes.

    >>> metric = paddle.fluid.metrics.Accuracy()
    >>> metric.update(value=0.5, weight=10)
    >>> metric.update(value=1.0, weight=30)
    >>> metric.eval()
    0.875
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.reset()

    def reset(self) -> None:
        """Forgets all batches."""
        self.value = self.weight = 0.0

    def update(self, value: Any, weight: Any) -> None:
        """Counts a batch of `weight` samples whose accuracy is `value`."""
        weight = float(np.asarray(weight).reshape(()))
        if weight < 0:
            raise ValueError(f"`weight` must not be negative, but is {weight}")
        self.value += float(np.asarray(value).reshape(())) * weight
        self.weight += weight

    def eval(self) -> float:
        """The accuracy over all batches."""
        if self.weight == 0:
            raise ValueError("there is no accuracy of no samples: call `update` first")
        return self.value / self.weight


class _Counting(MetricBase):
    """A metric of 2.x under the method names of 1.x."""

    def __init__(self, name: str | None, counter: Any) -> None:
        super().__init__(name)
        self._counter = counter

    def update(self, preds: Any, labels: Any) -> None:
        """Counts a batch of predictions and their labels."""
        self._counter.update(np.asarray(preds), np.asarray(labels))

    def eval(self) -> float:
        """The value over all batches."""
        return self._counter.accumulate()

    def reset(self) -> None:
        """Forgets all batches."""
        self._counter.reset()


class Auc(_Counting):
    """The area under the ROC curve, from probabilities of both classes.

    >>> import numpy as np
    >>> metric = paddle.fluid.metrics.Auc("auc")
    >>> metric.update(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([[0], [1]]))
    >>> float(metric.eval())
    1.0
    """

    def __init__(
        self, name: str | None = None, curve: str = "ROC", num_thresholds: int = 4095
    ) -> None:
        super().__init__(name, _metric.Auc(curve, num_thresholds))


class Precision(_Counting):
    """How many of the predicted positives are positive.

    >>> import numpy as np
    >>> metric = paddle.fluid.metrics.Precision()
    >>> metric.update(np.array([[0.9], [0.8]]), np.array([[1], [0]]))
    >>> float(metric.eval())
    0.5
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name, _metric.Precision())


class Recall(_Counting):
    """How many of the positives are predicted.

    >>> import numpy as np
    >>> metric = paddle.fluid.metrics.Recall()
    >>> metric.update(np.array([[0.9], [0.2]]), np.array([[1], [1]]))
    >>> float(metric.eval())
    0.5
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name, _metric.Recall())


class CompositeMetric(MetricBase):
    """Several metrics of the same predictions.

    >>> import numpy as np
    >>> both = paddle.fluid.metrics.CompositeMetric()
    >>> both.add_metric(paddle.fluid.metrics.Precision())
    >>> both.add_metric(paddle.fluid.metrics.Recall())
    >>> both.update(np.array([[0.9], [0.8]]), np.array([[1], [0]]))
    >>> [float(value) for value in both.eval()]
    [0.5, 1.0]
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self._metrics: list[MetricBase] = []

    def add_metric(self, metric: MetricBase) -> None:
        """Adds one."""
        if not isinstance(metric, MetricBase):
            raise TypeError(f"a metric of `fluid.metrics` is needed, not {type(metric).__name__}")
        self._metrics.append(metric)

    def update(self, preds: Any, labels: Any) -> None:
        """Counts a batch in all of them."""
        for metric in self._metrics:
            metric.update(preds, labels)

    def eval(self) -> list[Any]:
        """Their values."""
        return [metric.eval() for metric in self._metrics]

    def reset(self) -> None:
        """Forgets all batches."""
        for metric in self._metrics:
            metric.reset()


__getattr__ = missing_names(__name__)
