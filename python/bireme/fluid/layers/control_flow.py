"""Comparisons, logic, counters and arrays; conditions and loops are 2.x's."""

from __future__ import annotations

from typing import Any

from ... import _core
from ...static.backward import Print
from ...static.nn.control_flow import case, cond, switch_case, while_loop
from ...tensor.array import array_length, array_read, array_write, create_array
from ...tensor.manipulation import tensor_array_to_tensor

Variable = Any
_ops = _core.ops

__all__ = [
    "Print",
    "array_length",
    "array_read",
    "array_write",
    "autoincreased_step_counter",
    "case",
    "cond",
    "create_array",
    "equal",
    "greater_equal",
    "greater_than",
    "has_inf",
    "has_nan",
    "increment",
    "is_empty",
    "isfinite",
    "less_equal",
    "less_than",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "not_equal",
    "switch_case",
    "tensor_array_to_tensor",
    "while_loop",
]


def increment(x: Variable, value: float = 1.0, in_place: bool = True) -> Variable:
    """`x + value`, written into `x` itself unless `in_place` is False.

    >>> paddle.fluid.layers.increment(paddle.zeros([1]), 2.0).tolist()
    [2.0]
    """
    if not in_place:
        return _ops.scale(x, bias=float(value))
    _ops.increment(x, step=float(value), _into={"Out": x})
    return x


def autoincreased_step_counter(
    counter_name: str | None = None, begin: int = 1, step: int = 1
) -> Variable:
    """A variable that starts at `begin` and grows by `step` with every run.

    >>> paddle.enable_static()
    >>> paddle.fluid.layers.autoincreased_step_counter().name
    '@STEP_COUNTER@'
    """
    name = counter_name or "@STEP_COUNTER@"
    block = _core.default_main_program().global_block()
    if block.has_var(name):
        return block.var(name)
    counter = _core.create_global_var([1], begin - step, "int64", True, name)
    increment(counter, step)
    counter.stop_gradient = True
    return counter


def less_than(
    x: Variable,
    y: Variable,
    force_cpu: bool | None = None,
    cond: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """`x < y`; `cond`, where given, is overwritten; `force_cpu` has no meaning here.

    >>> paddle.fluid.layers.less_than(paddle.zeros([1]), paddle.ones([1])).tolist()
    [True]
    """
    return _compare("less_than", x, y, cond)


def less_equal(
    x: Variable, y: Variable, cond: Variable | None = None, name: str | None = None
) -> Variable:
    """`x <= y`, see `less_than`.

    >>> paddle.fluid.layers.less_equal(paddle.ones([1]), paddle.ones([1])).tolist()
    [True]
    """
    return _compare("less_equal", x, y, cond)


def greater_than(
    x: Variable, y: Variable, cond: Variable | None = None, name: str | None = None
) -> Variable:
    """`x > y`, see `less_than`.

    >>> paddle.fluid.layers.greater_than(paddle.ones([1]), paddle.ones([1])).tolist()
    [False]
    """
    return _compare("greater_than", x, y, cond)


def greater_equal(
    x: Variable, y: Variable, cond: Variable | None = None, name: str | None = None
) -> Variable:
    """`x >= y`, see `less_than`.

    >>> paddle.fluid.layers.greater_equal(paddle.ones([1]), paddle.ones([1])).tolist()
    [True]
    """
    return _compare("greater_equal", x, y, cond)


def equal(
    x: Variable, y: Variable, cond: Variable | None = None, name: str | None = None
) -> Variable:
    """`x == y`, see `less_than`.

    >>> paddle.fluid.layers.equal(paddle.ones([1]), paddle.ones([1])).tolist()
    [True]
    """
    return _compare("equal", x, y, cond)


def not_equal(
    x: Variable, y: Variable, cond: Variable | None = None, name: str | None = None
) -> Variable:
    """`x != y`, see `less_than`.

    >>> paddle.fluid.layers.not_equal(paddle.ones([1]), paddle.ones([1])).tolist()
    [False]
    """
    return _compare("not_equal", x, y, cond)


def logical_and(
    x: Variable, y: Variable, out: Variable | None = None, name: str | None = None
) -> Variable:
    """Both; `out`, where given, is overwritten.

    >>> yes, no = paddle.to_tensor([True]), paddle.to_tensor([False])
    >>> paddle.fluid.layers.logical_and(yes, no).tolist()
    [False]
    """
    return _compare("logical_and", x, y, out)


def logical_or(
    x: Variable, y: Variable, out: Variable | None = None, name: str | None = None
) -> Variable:
    """At least one, see `logical_and`.

    >>> yes, no = paddle.to_tensor([True]), paddle.to_tensor([False])
    >>> paddle.fluid.layers.logical_or(yes, no).tolist()
    [True]
    """
    return _compare("logical_or", x, y, out)


def logical_xor(
    x: Variable, y: Variable, out: Variable | None = None, name: str | None = None
) -> Variable:
    """Exactly one, see `logical_and`.

    >>> yes, no = paddle.to_tensor([True]), paddle.to_tensor([False])
    >>> paddle.fluid.layers.logical_xor(yes, no).tolist()
    [True]
    """
    return _compare("logical_xor", x, y, out)


def logical_not(x: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """The opposite, see `logical_and`.

    >>> paddle.fluid.layers.logical_not(paddle.to_tensor([True])).tolist()
    [False]
    """
    if out is None:
        return _ops.logical_not(x)
    _ops.logical_not(x, _into={"Out": out})
    return out


def isfinite(x: Variable) -> Variable:
    """Whether all elements are finite: one value.

    >>> paddle.fluid.layers.isfinite(paddle.ones([2])).tolist()
    [True]
    """
    return _whole("reduce_all", _ops.isfinite_v2(x))


def has_inf(x: Variable) -> Variable:
    """Whether any element is infinite: one value.

    >>> paddle.fluid.layers.has_inf(paddle.ones([2])).tolist()
    [False]
    """
    return _whole("reduce_any", _ops.isinf_v2(x))


def has_nan(x: Variable) -> Variable:
    """Whether any element is not a number: one value.

    >>> paddle.fluid.layers.has_nan(paddle.ones([2])).tolist()
    [False]
    """
    return _whole("reduce_any", _ops.isnan_v2(x))


def is_empty(x: Variable, name: str | None = None) -> Variable:
    """Whether there is no element: one value.

    >>> paddle.fluid.layers.is_empty(paddle.ones([2])).tolist()
    [False]
    """
    sizes = _ops.shape(x)
    none = _ops.fill_any_like(sizes, value=0)
    return _whole("reduce_any", _ops.equal(sizes, none))


def _compare(op: str, x: Variable, y: Variable, out: Variable | None) -> Variable:
    if out is None:
        return getattr(_ops, op)(x, y)
    getattr(_ops, op)(x, y, _into={"Out": out})
    return out


def _whole(op: str, x: Variable) -> Variable:
    return _ops.reshape2(getattr(_ops, op)(x, reduce_all=True), shape=[1], _outputs=("Out",))
