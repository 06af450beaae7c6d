"""AUC from the buckets that a program counts into, over all workers of a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..distributed.fleet import metrics


def global_auc(scope: Any, names: Sequence[str], util: Any) -> float | None:
    """The AUC of all workers; `None` where the program counts into no such buckets."""
    buckets = [scope.find_var(name) for name in names]
    if any(var is None or not var.is_initialized() for var in buckets):
        return None
    return metrics.auc(names[0], names[1], scope, util)


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
