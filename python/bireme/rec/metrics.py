"""The metrics of a click model over all workers, from the sums that its program counts.

A model for streaming names ten variables (`metric_list`): the buckets of `auc` over the last batches
and over all (positive and negative each), then what `ctr_metric_bundle` returns.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import _core

COUNT = 10
# Buckets whose predictions are nearer than this count together, until they say enough.
_SPAN = 0.01
_ENOUGH = 0.05


def names_of(model: Any) -> list[str]:
    """The variables that a model counts into; none where it names none."""
    listed = list(getattr(model, "metric_list", None) or [])
    if listed and len(listed) != COUNT:
        raise ValueError(
            f"len(metric_list) != {COUNT}, {len(listed)}: it needs the four counters of `auc` and the"
            " six of `ctr_metric_bundle`"
        )
    return [var if isinstance(var, str) else var.name for var in listed]


def line(scope: Any, names: list[str], util: Any) -> str:
    """What the log says about all workers, in PaddleRec's words."""
    values = [np.array(scope.find_var(name).get_tensor()) for name in names]
    values = [util.all_reduce(value.reshape(-1), "sum") for value in values]
    positive, negative = values[2], values[3]
    square, absolute, predicted, q, clicks, total = (float(value[0]) for value in values[4:])
    shown = max(total, 1.0)
    rate, expected = clicks / shown, predicted / shown
    said = {
        "AUC": _core.auc(positive.astype("float64"), negative.astype("float64")),
        "BUCKET_ERROR": bucket_error(positive, negative),
        "MAE": absolute / shown,
        "RMSE": math.sqrt(square / shown),
        # As people's scripts look for it.
        "Actural_CTR": rate,
        "Predicted_CTR": expected,
        "COPC": rate / expected if expected > 1e-6 else 0.0,
        "MEAN Q_VALUE": q / shown,
    }
    text = " ".join(f"{name}={value:.6f}" for name, value in said.items())
    return f" global {text} Ins number={int(total)}"


def reset(scope: Any, names: list[str]) -> None:
    """Lets the counters begin anew."""
    for name in names:
        tensor = scope.find_var(name).get_tensor()
        tensor.set(np.zeros_like(np.array(tensor)), None)


def bucket_error(positive: np.ndarray, negative: np.ndarray) -> float:
    """By how much, in parts, clicks differ from predictions where enough was shown to tell.

    >>> positive, negative = np.zeros(100), np.zeros(100)
    >>> positive[50], negative[50] = 6000, 4000
    >>> round(bucket_error(positive, negative), 6)
    0.2
    """
    last, shows, expected, clicks = -1.0, 0.0, 0.0, 0.0
    errors = counted = 0.0
    for at, (clicked, other) in enumerate(zip(positive.reshape(-1), negative.reshape(-1))):
        rate = at / positive.size
        if abs(rate - last) > _SPAN:
            last, shows, expected, clicks = rate, 0.0, 0.0, 0.0
        shows += clicked + other
        expected += rate * (clicked + other)
        clicks += clicked
        if shows == 0 or expected == 0:
            continue
        mean = expected / shows
        if math.sqrt((1 - mean) / (mean * shows)) < _ENOUGH:
            errors += abs(clicks / shows / mean - 1) * shows
            counted += shows
            last = -1.0
    return float(errors / counted) if counted > 0 else 0.0
