"""Metrics over all workers: each hands over its counts, and gets the metric of all together.

A count is an array, or the variable that holds it, or that one's name in `scope` (by default the
global one); every worker must ask. `util` is `fleet.util` unless another one is given.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import _core
from ....static.program import Variable, global_scope


def sum(input: Any, scope: Any = None, util: Any = None) -> np.ndarray:
    """The sum over workers, element by element.

    >>> import numpy as np
    >>> paddle.distributed.fleet.metrics.sum(np.array([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    return _reduced(input, "sum", scope, util)


def max(input: Any, scope: Any = None, util: Any = None) -> np.ndarray:
    """The largest value of all workers, element by element.

    >>> import numpy as np
    >>> paddle.distributed.fleet.metrics.max(np.array([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    return _reduced(input, "max", scope, util)


def min(input: Any, scope: Any = None, util: Any = None) -> np.ndarray:
    """The smallest value of all workers, element by element.

    >>> import numpy as np
    >>> paddle.distributed.fleet.metrics.min(np.array([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    return _reduced(input, "min", scope, util)


def auc(stat_pos: Any, stat_neg: Any, scope: Any = None, util: Any = None) -> float:
    """The area under the ROC curve, from counts of positives and negatives per threshold.

    0.5 where there are no positives or no negatives.

    >>> import numpy as np
    >>> paddle.distributed.fleet.metrics.auc(np.array([[0, 1, 3]]), np.array([[2, 1, 0]]))
    0.9583333333333334
    """
    positives, negatives = (
        _reduced(counts, "sum", scope, util).reshape(-1).astype("float64")
        for counts in (stat_pos, stat_neg)
    )
    if positives.size != negatives.size:
        raise ValueError(f"{positives.size} counts of positives, {negatives.size} of negatives")
    return _core.auc(positives, negatives)


def mae(abserr: Any, total_ins_num: Any, scope: Any = None, util: Any = None) -> float:
    """The mean absolute error: the sum of errors over the number of samples.

    >>> import numpy as np
    >>> paddle.distributed.fleet.metrics.mae(np.array([6.0]), 4)
    1.5
    """
    return _mean(abserr, total_ins_num, scope, util)


def mse(sqrerr: Any, total_ins_num: Any, scope: Any = None, util: Any = None) -> float:
    """The mean squared error: the sum of squared errors over the number of samples.

    >>> import numpy as np
    >>> paddle.distributed.fleet.metrics.mse(np.array([8.0]), 2)
    4.0
    """
    return _mean(sqrerr, total_ins_num, scope, util)


def rmse(sqrerr: Any, total_ins_num: Any, scope: Any = None, util: Any = None) -> float:
    """The root of the mean squared error.

    >>> import numpy as np
    >>> paddle.distributed.fleet.metrics.rmse(np.array([8.0]), 2)
    2.0
    """
    return float(np.sqrt(_mean(sqrerr, total_ins_num, scope, util)))


def acc(correct: Any, total: Any, scope: Any = None, util: Any = None) -> float:
    """The share of correct predictions.

    >>> import numpy as np
    >>> paddle.distributed.fleet.metrics.acc(np.array([3.0]), np.array([4.0]))
    0.75
    """
    return _mean(correct, total, scope, util)


def _mean(amount: Any, count: Any, scope: Any, util: Any) -> float:
    amounts = _reduced(amount, "sum", scope, util).reshape(-1)
    counts = _reduced(count, "sum", scope, util).reshape(-1)
    if not counts[0]:
        raise ValueError("no worker has counted a sample: there is no mean of nothing")
    return float(amounts[0]) / float(counts[0])


def _reduced(value: Any, mode: str, scope: Any, util: Any) -> np.ndarray:
    from .. import util as default

    return (util or default).all_reduce(_array(value, scope), mode)


def _array(value: Any, scope: Any) -> np.ndarray:
    if not isinstance(value, (str, Variable)):
        return np.asarray(value)
    name = value if isinstance(value, str) else value.name
    found = (scope or global_scope()).find_var(name)
    if found is None:
        raise ValueError(f"there is no variable `{name}` in the scope: has the program run?")
    return np.array(found.get_tensor())
