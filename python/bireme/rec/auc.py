"""AUC from the buckets that a program counts into, over all workers of a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def of_buckets(positive: np.ndarray, negative: np.ndarray) -> float:
    """The area under the curve; 0.5 where there is nothing to compare.

    >>> of_buckets(np.array([0, 0, 3]), np.array([3, 0, 0]))
    1.0
    >>> of_buckets(np.array([1]), np.array([0]))
    0.5
    """
    positive, negative = (
        counts.reshape(-1)[::-1].astype("float64") for counts in (positive, negative)
    )
    found = np.cumsum(positive)
    if found.size == 0 or found[-1] * negative.sum() == 0:
        return 0.5
    area = np.sum(negative * (found - positive / 2))
    return float(area / (found[-1] * negative.sum()))


def global_auc(scope: Any, names: Sequence[str], util: Any) -> float | None:
    """The AUC of all workers; `None` where the program counts into no such buckets."""
    buckets = [scope.find_var(name) for name in names]
    if any(var is None or not var.is_initialized() for var in buckets):
        return None
    counts = [np.array(var.get_tensor()) for var in buckets]
    return of_buckets(*(util.all_reduce(count, "sum") for count in counts))


def counters(program: Any) -> list[list[str]]:
    """The buckets of each `auc` op of a program: those over all batches first.

    >>> counters(paddle.static.Program())
    []
    """
    found: dict[tuple[str, str], int] = {}
    for op in program.global_block().ops:
        if op.type == "auc":
            names = (op.input("StatPos")[0], op.input("StatNeg")[0])
            # With `slide_steps` it is the AUC of the last batches.
            found[names] = op.attr("slide_steps") or 0
    return [list(names) for names, _ in sorted(found.items(), key=lambda item: item[1])]


def reset(scope: Any, names: list[str]) -> None:
    """Sets counters to zero."""
    for name in names:
        var = scope.find_var(name)
        if var is not None and var.is_initialized():
            tensor = var.get_tensor()
            tensor.set(np.zeros(tensor.shape(), "int64"), None)
