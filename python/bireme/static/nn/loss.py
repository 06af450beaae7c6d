"""Losses with parameters of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import _core
from ..._names import set_public_names
from ...nn.initializer import Assign
from ..program import Variable
from .parameters import LayerNames

ops = _core.ops

_SAMPLERS = ("uniform", "log_uniform", "custom_dist")


def nce(
    input: Variable,
    label: Variable,
    num_total_classes: int,
    sample_weight: Variable | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    num_neg_samples: int | None = None,
    name: str | None = None,
    sampler: str = "uniform",
    custom_dist: Sequence[float] | None = None,
    seed: int = 0,
    is_sparse: bool = False,
) -> Variable:
    """The cost of telling the classes in `label` from `num_neg_samples` (10) others drawn at random.

    `sampler` says how they are drawn: "uniform", "log_uniform" (small numbers more often) or
    "custom_dist", by the probabilities in `custom_dist`. With `seed` each run draws the same.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
    ...     x = paddle.static.data("x", [None, 8])
    ...     label = paddle.static.data("label", [None, 1], "int64")
    ...     paddle.static.nn.nce(x, label, 100, num_neg_samples=5).shape
    (-1, 1)
    >>> paddle.disable_static()
    """
    if sampler not in _SAMPLERS:
        raise ValueError(f"`sampler` must be one of {', '.join(_SAMPLERS)}, not {sampler!r}")
    if (sampler == "custom_dist") != (custom_dist is not None):
        raise ValueError("`custom_dist` belongs to `sampler` custom_dist, which needs it")
    layer = LayerNames("nce", name)
    weight = layer.weight(param_attr, [num_total_classes, input.shape[1]], input.dtype)
    bias = layer.bias(bias_attr, [num_total_classes, 1], input.dtype)
    tables: list[Any] = [None, None, None]
    if custom_dist is not None:
        tables = [_fixed(layer, values) for values in _alias_tables(custom_dist, num_total_classes)]
    negatives = 10 if num_neg_samples is None else int(num_neg_samples)
    cost, _, _ = ops.nce(
        input,
        label,
        weight,
        bias,
        sample_weight,
        *tables,
        num_total_classes=num_total_classes,
        num_neg_samples=negatives,
        sampler=_SAMPLERS.index(sampler),
        seed=seed,
        is_sparse=is_sparse,
        _outputs=("Cost", "SampleLogits", "SampleLabels"),
    )
    return cost / (negatives + 1)


def _fixed(layer: LayerNames, values: np.ndarray) -> Variable:
    """A parameter with these values, which training leaves alone."""
    table = layer.weight(Assign(values), values.shape, values.dtype.name)
    table.stop_gradient = True
    return table


def _alias_tables(distribution: Sequence[float], classes: int) -> tuple[np.ndarray, ...]:
    """Probabilities, and the tables by which classes are drawn: a class or, else, its alias.

    >>> [table.tolist() for table in _alias_tables([0.5, 0.25, 0.25], 3)[1:]]
    [[-1, 0, 0], [1.0, 0.75, 0.75]]
    """
    probabilities = np.asarray(distribution, "float64")
    if probabilities.shape != (classes,) or (probabilities < 0).any():
        raise ValueError(
            f"`custom_dist` must have a probability for each of {classes} classes, not "
            f"{probabilities.shape}"
        )
    parts = probabilities * classes
    alias = np.full(classes, -1, "int32")
    little = [i for i in range(classes) if parts[i] < 1.0]
    big = [i for i in range(classes) if parts[i] > 1.0]
    while little and big:
        small, large = little.pop(0), big[0]
        # What the small one lacks is the large one's.
        alias[small] = large
        parts[large] -= 1.0 - parts[small]
        if parts[large] <= 1.0:
            big.pop(0)
            if parts[large] < 1.0:
                little.append(large)
    # Only rounding leaves something over.
    parts[[*little, *big]] = 1.0
    return probabilities.astype("float32"), alias, parts.astype("float32")


set_public_names(__name__)
