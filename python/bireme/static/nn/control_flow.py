"""Conditions and loops in programs: `cond`, `while_loop`, `case`, `switch_case`.

In a program they append ops that run blocks of their own; in eager mode they are Python's `if` and
`while`. Gradients go through them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import _core
from ...tensor.array import is_array
from ..program import Variable
from .blocks import (
    append_condition,
    append_loop,
    as_variable,
    building,
    call,
    check_condition,
    check_same_structure,
    current_block,
    flatten,
    rebuild,
    variable_like,
    write,
)

__all__ = ["case", "cond", "switch_case", "while_loop"]

ops = _core.ops


def cond(
    pred: Any,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    name: str | None = None,
    return_names: Sequence[str] | None = None,
) -> Any:
    """What `true_fn()` returns if `pred` is true, otherwise what `false_fn()` returns.

    Both must return tensors in the same nesting, of the same types. Only one of them is computed.

    >>> import bireme as paddle
    >>> x = paddle.to_tensor([2.0])
    >>> paddle.static.nn.cond(x > 1, lambda: x * 2, lambda: x - 1).tolist()
    [4.0]
    """
    check_condition("`pred` of `cond`", pred)
    if not isinstance(pred, Variable):
        chosen, what = (true_fn, "`true_fn`") if bool(pred) else (false_fn, "`false_fn`")
        return call(chosen, what)
    first = _Branch(pred, true_fn, "`true_fn`")
    other = _Branch(ops.logical_not(pred), false_fn, "`false_fn`")
    if first.result is None and other.result is None:
        return None
    text = "`true_fn` and `false_fn` of `cond` must return the same nesting"
    if first.result is None or other.result is None:
        raise TypeError(f"{text}: one of them returns nothing")
    check_same_structure(text, first.result, other.result)
    mask = ops.cast(pred, in_dtype="bool", out_dtype="int32")
    names = list(return_names or [])
    results = [
        _choose(mask, mine, theirs, names[at] if at < len(names) else None)
        for at, (theirs, mine) in enumerate(zip(first.outputs, other.outputs))
    ]
    return rebuild(first.result, iter(results))


class _Branch:
    """One case of a condition: its block, and variables around it that hold what it returns."""

    def __init__(self, pred: Any, function: Callable[[], Any] | None, what: str) -> None:
        around = current_block()
        with building() as block:
            self.result = call(function, what)
            leaves = [] if self.result is None else flatten(self.result)
            self.outputs = [self._hand_on(leaf, around, what) for leaf in leaves]
        if block.ops:
            append_condition(pred, block)

    @staticmethod
    def _hand_on(leaf: Any, around: Any, what: str) -> Any:
        if leaf is None:
            return None
        value = as_variable(leaf)
        if not isinstance(value, Variable):
            raise TypeError(f"{what} of `cond` must return tensors, not {type(leaf).__name__}")
        target = variable_like(value, around)
        write(value, target)
        return target


def _choose(mask: Any, when_false: Any, when_true: Any, name: str | None) -> Any:
    where = f" (`{name}`)" if name else ""
    if when_false is None and when_true is None:
        return None
    if when_false is None or when_true is None:
        raise TypeError(f"`cond` returns nothing in one case and a tensor in the other{where}")
    if when_false.dtype != when_true.dtype:
        kinds = f"{when_true.dtype.name} if true and {when_false.dtype.name} if not"
        raise TypeError(f"`cond` returns {kinds}{where}: cast one of them")
    return ops.select_input([when_false, when_true], mask)


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Sequence[Any],
    is_test: bool = False,
    name: str | None = None,
) -> Any:
    """Replaces `loop_vars` by `body(*loop_vars)` as long as `cond(*loop_vars)` is true.

    Their element types and numbers of dimensions must stay; sizes may change.

    >>> import bireme as paddle
    >>> i, x = paddle.to_tensor([0]), paddle.to_tensor([1.0])
    >>> [t.tolist() for t in paddle.static.nn.while_loop(
    ...     lambda i, x: i < 3, lambda i, x: [i + 1, x * 2], [i, x])]
    [[3], [8.0]]
    """
    for what, function in (("cond", cond), ("body", body)):
        if not callable(function):
            raise TypeError(f"`{what}` of `while_loop` must be a function")
    if not isinstance(loop_vars, (list, tuple)) or not loop_vars:
        raise ValueError("`loop_vars` of `while_loop` must be a list of at least one tensor")
    if _core.in_dynamic_mode():
        return _loop_in_python(cond, body, loop_vars)
    carried = rebuild(loop_vars, iter([_carry(leaf) for leaf in flatten(loop_vars)]))
    text = "the result of `cond` of `while_loop`"
    go = ops.assign(as_variable(check_condition(text, cond(*carried))))
    with building() as block:
        _take_over(_as_list(body(*carried)), carried)
        again = as_variable(check_condition(text, cond(*carried)))
        write(again, go)
    append_loop(go, block, is_test)
    return carried


def _loop_in_python(cond: Any, body: Any, loop_vars: Sequence[Any]) -> Any:
    while bool(cond(*loop_vars)):
        results = _as_list(body(*loop_vars))
        check_same_structure(_BODY, list(loop_vars), results)
        loop_vars = results
    return loop_vars


_BODY = "`body` of `while_loop` must return what `loop_vars` are"


def _as_list(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (list, tuple)) else [results]


def _carry(leaf: Any) -> Any:
    """A variable that the loop may write: the caller's own stays what it is, but for arrays."""
    value = as_variable(leaf)
    if not isinstance(value, Variable):
        kind = type(leaf).__name__
        raise TypeError(f"`loop_vars` of `while_loop` must be tensors or arrays, not {kind}")
    if is_array(value):
        return value
    carried = ops.assign(value)
    if carried.dtype.name.startswith(("float", "bfloat")):
        # It starts as a constant perhaps, but what the loop makes of it need not be one.
        carried.stop_gradient = False
    return carried


def _take_over(results: list[Any], carried: Sequence[Any]) -> None:
    """Copies the results of a run into the variables that the next run starts from."""
    check_same_structure(_BODY, list(carried), results)
    targets = flatten(list(carried))
    values = [as_variable(value) for value in flatten(results)]
    for value in values:
        if not isinstance(value, Variable):
            raise TypeError(f"{_BODY}: tensors, not {type(value).__name__}")
    names = {target.name for target in targets}
    # All are read before the first is written: two may have changed places.
    values = [
        ops.assign(value) if value.name in names and value.name != target.name else value
        for value, target in zip(values, targets)
    ]
    for value, target in zip(values, targets):
        if is_array(value) and value.name == target.name:
            continue
        write(value, target)


def case(
    pred_fn_pairs: Sequence[tuple[Any, Callable[[], Any]]],
    default: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Any:
    """What the function of the first true condition returns; without one, that of `default`.

    The last function is the default if none is given.

    >>> import bireme as paddle
    >>> x = paddle.to_tensor([2.0])
    >>> paddle.static.nn.case([(x > 3, lambda: x), (x > 1, lambda: -x)], lambda: x + 9).tolist()
    [-2.0]
    """
    pairs = list(pred_fn_pairs)
    if not pairs:
        raise ValueError("`case` needs at least one pair of a condition and a function")
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2 or not callable(pair[1]):
            raise TypeError("`pred_fn_pairs` of `case` must be pairs of a condition and a function")
    if default is None:
        default = pairs.pop()[1]
    elif not callable(default):
        raise TypeError(f"`default` of `case` must be a function, not {type(default).__name__}")
    otherwise = default
    for pred, function in reversed(pairs):
        otherwise = _either(pred, function, otherwise)
    return otherwise()


def _either(pred: Any, function: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
    return lambda: cond(pred, function, otherwise)


def switch_case(
    branch_index: Any,
    branch_fns: Any,
    default: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Any:
    """What the function with the number `branch_index` returns; without one, that of `default`.

    `branch_fns` is a list of functions, of pairs of a number and a function, or a dictionary. The
    function with the largest number is the default if none is given.

    >>> import bireme as paddle
    >>> number = paddle.to_tensor([1])
    >>> paddle.static.nn.switch_case(number, [lambda: number, lambda: number + 4]).tolist()
    [5]
    """
    items = list(branch_fns.items()) if isinstance(branch_fns, dict) else list(branch_fns)
    if not items:
        raise ValueError("`switch_case` needs at least one function")
    if all(callable(item) for item in items):
        items = list(enumerate(items))
    for item in items:
        fits = isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], int)
        if not fits or not callable(item[1]):
            raise TypeError(
                "`branch_fns` of `switch_case` must be functions, or pairs of a number and one"
            )
    numbers = [number for number, _ in items]
    if len(set(numbers)) != len(numbers):
        raise ValueError(f"`branch_fns` of `switch_case` has a number twice: {numbers}")
    if default is None:
        default = max(items, key=lambda item: item[0])[1]
    pairs = [(_is_number(branch_index, number), function) for number, function in items]
    return case(pairs, default)


def _is_number(index: Any, number: int) -> Any:
    if not isinstance(index, (Variable, _core.Tensor)):
        raise TypeError(f"`branch_index` must be a tensor, not {type(index).__name__}")
    return ops.equal(index, ops.fill_any_like(index, value=float(number), dtype=index.dtype))
