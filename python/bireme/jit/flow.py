"""What the control flow of a rewritten function does: Python's over Python values, blocks over variables."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .. import _core
from ..static.nn.blocks import (
    append_condition,
    as_variable,
    building,
    check_condition,
    check_same_structure,
    current_block,
    flatten,
    rebuild,
    variable_like,
    write,
)
from ..static.nn.control_flow import while_loop
from ..tensor.array import is_array

Variable = _core.Variable
_ops = _core.ops


class Undefined:
    """Stands for a name that has no value in one of the ways to where it is used."""

    def __init__(self, name: str, line: int) -> None:
        self._what = f"`{name}` has no value here: in line {line} it gets one in one case only"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            # Asked for by protocols, which take no for an answer.
            raise AttributeError(name)
        raise UnboundLocalError(object.__getattribute__(self, "_what"))

    def __bool__(self) -> bool:
        raise UnboundLocalError(self._what)

    def _refuse(self, *_: Any) -> Any:
        raise UnboundLocalError(self._what)

    __call__ = __getitem__ = __iter__ = __neg__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _refuse


_ABSENT = Undefined("it", 0)


def still_there(now: dict[str, Any], name: str) -> Any:
    """The value of a name at the end of a block, if it has one."""
    return now.get(name, _ABSENT)


def called(function: Any) -> Any:
    """A function that is called: rewritten, if it is one of the user's own."""
    from .rewrite import rewritten
    from .static_function import StaticFunction

    if isinstance(function, StaticFunction):
        function = function.function
    if isinstance(function, (types.FunctionType, types.MethodType)):
        module = getattr(function, "__module__", None) or ""
        if module.partition(".")[0] not in ("bireme", "numpy", "builtins"):
            return rewritten(function)
    return function


def span(*bounds: Any) -> Any:
    """`range`, of variables too."""
    if not any(isinstance(bound, (Variable, _core.Tensor)) for bound in bounds):
        return range(*bounds)
    if not any(isinstance(bound, Variable) for bound in bounds):
        return range(*[int(bound) for bound in bounds])
    return _Span(*bounds)


class _Span:
    """A range whose bounds are known when the program runs."""

    def __init__(self, *bounds: Any) -> None:
        start, stop, step = {1: (0, *bounds, 1), 2: (*bounds, 1), 3: bounds}[len(bounds)]
        if isinstance(step, Variable):
            raise TypeError("the step of a `range` must be a number; its bounds may be variables")
        if step == 0:
            raise ValueError("the step of a `range` must not be 0")
        self.start, self.stop, self.step = start, stop, step

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(
            "a loop over a `range` of variables that has `break`, `continue`, `return` or `else` "
            "cannot be written down as a program: use a condition instead"
        )


def both(*values: Callable[[], Any]) -> Any:
    """`and`."""
    return _fold(values, _ops.logical_and, False)


def either(*values: Callable[[], Any]) -> Any:
    """`or`."""
    return _fold(values, _ops.logical_or, True)


def _fold(values: Iterable[Callable[[], Any]], op: Any, ends: bool) -> Any:
    result: Any = None
    for at, value in enumerate(values):
        if at > 0 and not isinstance(result, Variable) and bool(result) == ends:
            return result
        now = value()
        is_static = isinstance(result, Variable) and at > 0
        if is_static and not isinstance(now, Variable):
            now = _ops.fill_any_like(result, value=float(bool(now)), dtype="bool")
        result = op(result, now) if is_static else now
    return result


def invert(value: Any) -> Any:
    """`not`."""
    return _ops.logical_not(value) if isinstance(value, Variable) else not value


def pick(test: Any, first: Callable[[], Any], other: Callable[[], Any], line: int) -> Any:
    """`first() if test else other()`."""
    if not isinstance(test, Variable):
        return first() if test else other()
    return _merge(test, lambda: (first(),), lambda: (other(),), ("the result",), line)[0]


def choose(
    test: Any,
    first: Callable[..., Any],
    other: Callable[..., Any],
    now: dict[str, Any],
    names: tuple[str, ...],
    line: int,
    returns: bool = False,
) -> Any:
    """`if`: the values of `names` after it, or what the function returns with it."""
    values = [now.get(name, _ABSENT) for name in names]
    if not isinstance(test, Variable):
        return first(*values) if test else other(*values)
    if returns:
        wrapped = [lambda: (first(*values),), lambda: (other(*values),)]
        return _merge(test, wrapped[0], wrapped[1], ("the result",), line)[0]
    return _merge(test, lambda: first(*values), lambda: other(*values), names, line)


def _merge(
    test: Any,
    first: Callable[[], tuple[Any, ...]],
    other: Callable[[], tuple[Any, ...]],
    names: tuple[str, ...],
    line: int,
) -> tuple[Any, ...]:
    """Appends both cases, and gives each name a value that is that of the case that runs."""
    check_condition(f"the condition in line {line}", test)
    cases = []
    for function in (first, other):
        with building() as block:
            cases.append((block, function()))
    merge = _Merge(cases[0][0], cases[1][0], line)
    results = [
        merge.value(name, one, two) for name, one, two in zip(names, cases[0][1], cases[1][1])
    ]
    no = _ops.logical_not(test)
    for condition, (block, _) in zip((test, no), cases):
        if block.ops:
            append_condition(condition, block)
    mask = _ops.cast(test, in_dtype="bool", out_dtype="int32")
    chosen = [_ops.select_input([two, one], mask) for one, two in merge.pairs]
    return tuple(_fill(result, chosen) for result in results)


class _Chosen:
    """The place of a value that the program chooses."""

    def __init__(self, at: int) -> None:
        self.at = at


def _fill(value: Any, chosen: list[Any]) -> Any:
    leaves = (chosen[x.at] if isinstance(x, _Chosen) else x for x in flatten(value))
    return rebuild(value, leaves)


class _Merge:
    """Collects the values that differ in two cases."""

    def __init__(self, first: Any, other: Any, line: int) -> None:
        self.blocks, self.line = (first, other), line
        self.pairs: list[tuple[Any, Any]] = []

    def value(self, name: str, one: Any, two: Any) -> Any:
        """The value of `name` after both: one that they share, or the place of a chosen one."""
        if isinstance(one, Undefined) or isinstance(two, Undefined):
            return Undefined(name, self.line)
        what = f"`{name}` in line {self.line} is not the same nesting in both cases"
        check_same_structure(what, one, two)
        pairs = zip(flatten(one), flatten(two))
        return rebuild(one, iter([self._leaf(name, mine, theirs) for mine, theirs in pairs]))

    def _leaf(self, name: str, one: Any, two: Any) -> Any:
        tensors = (Variable, _core.Tensor)
        is_tensor = isinstance(one, tensors) or isinstance(two, tensors)
        if one is two or (not is_tensor and type(one) is type(two) and one == two):
            return one
        if isinstance(one, Undefined) or isinstance(two, Undefined):
            return Undefined(name, self.line)
        numbers = (bool, int, float, *tensors)
        if not isinstance(one, numbers) or not isinstance(two, numbers):
            kinds = f"{type(one).__name__} and {type(two).__name__}"
            raise TypeError(
                f"`{name}` is set to different values ({kinds}) by a condition over tensors in "
                f"line {self.line}: a program can choose between tensors and numbers only"
            )
        like = next((x.dtype for x in (one, two) if isinstance(x, tensors)), None)
        if like is None and float in (type(one), type(two)):
            one, two = float(one), float(two)
        pair = tuple(self._hand_on(at, x, like) for at, x in enumerate((one, two)))
        if pair[0].dtype != pair[1].dtype:
            raise TypeError(
                f"`{name}` is {pair[0].dtype.name} or {pair[1].dtype.name}, as the condition in line "
                f"{self.line} says: cast one of them"
            )
        self.pairs.append((pair[0], pair[1]))
        return _Chosen(len(self.pairs) - 1)

    def _hand_on(self, at: int, value: Any, like: Any) -> Any:
        program, around = _core.default_main_program(), current_block()
        program._enter_block(self.blocks[at].idx)
        try:
            value = as_variable(value)
            if like is not None and value.dtype != like and not value.shape[1:]:
                value = _ops.cast(value, in_dtype=value.dtype, out_dtype=like)
            target = variable_like(value, around)
            write(value, target)
        finally:
            program._rollback()
        return target


def repeat(
    test: Callable[..., Any],
    body: Callable[..., Any],
    now: dict[str, Any],
    names: tuple[str, ...],
    line: int,
) -> tuple[Any, ...]:
    """`while`: the values of `names` after it."""
    values: Any = tuple(now.get(name, _ABSENT) for name in names)
    holds = test(*values)
    while not isinstance(holds, Variable):
        if not holds:
            return tuple(values)
        values = body(*values)
        holds = test(*values)
    return _Loop(names, values, line).run(lambda *now: test(*now), lambda *now: body(*now))


def for_each(
    items: Any, body: Callable[..., Any], now: dict[str, Any], names: tuple[str, ...], line: int
) -> tuple[Any, ...]:
    """`for`: the values of `names` after it."""
    values: Any = tuple(now.get(name, _ABSENT) for name in names)
    if isinstance(items, Variable):
        if is_array(items):
            raise TypeError(f"line {line} loops over an array: loop over its places with `range`")
        if not items.shape:
            raise TypeError(f"line {line} loops over a tensor without dimensions")
        if items.shape[0] >= 0:
            items = [items[at] for at in range(items.shape[0])]
        else:
            whole = items
            length = _ops.slice(_ops.shape(whole), axes=[0], starts=[0], ends=[1])
            plain = body
            body = lambda at, *now: plain(_row(whole, at), *now)
            items = _Span(length)
    if not isinstance(items, _Span):
        for item in items:
            values = body(item, *values)
        return tuple(values)
    return _over_span(items, body, names, values, line)


def _row(whole: Any, at: Any) -> Any:
    row = _ops.gather(whole, _ops.reshape2(at, shape=[1], _outputs=["Out"]), axis=0)
    return _ops.squeeze2(row, axes=[0], _outputs=["Out"])


def _over_span(
    items: _Span, body: Callable[..., Any], names: tuple[str, ...], values: Any, line: int
) -> tuple[Any, ...]:
    bounds = [bound for bound in (items.start, items.stop) if isinstance(bound, Variable)]
    dtype = bounds[0].dtype
    one = as_variable(items.start)
    start = one if one.dtype == dtype else _ops.cast(one, in_dtype=one.dtype, out_dtype=dtype)

    def holds(at: Any, *now: Any) -> Any:
        return at < items.stop if items.step > 0 else at > items.stop

    def step(at: Any, *now: Any) -> tuple[Any, ...]:
        return (at + items.step, *body(at, *now))

    return _Loop(("the counter", *names), (start, *values), line).run(holds, step)[1:]


class _Loop:
    """A loop over variables, among them whatever the body assigns that had a value before."""

    def __init__(self, names: tuple[str, ...], values: tuple[Any, ...], line: int) -> None:
        self.names, self.values, self.line = names, list(values), line
        kinds = (bool, int, float, Variable, _core.Tensor)
        #: Places of what the program carries from run to run: all leaves are tensors or numbers.
        self.carried = [
            at
            for at, value in enumerate(values)
            if not isinstance(value, Undefined)
            and flatten(value)
            and all(isinstance(leaf, kinds) for leaf in flatten(value))
        ]

    def run(self, holds: Callable[..., Any], body: Callable[..., Any]) -> tuple[Any, ...]:
        def at_run(carried: Any) -> list[Any]:
            values = list(self.values)
            for at, value in zip(self.carried, carried):
                values[at] = value
            return values

        def step(*carried: Any) -> list[Any]:
            results = body(*at_run(carried))
            self._check_others(results)
            return [results[at] for at in self.carried]

        start = [self.values[at] for at in self.carried]
        try:
            ends = while_loop(lambda *now: holds(*at_run(now)), step, start)
        except (TypeError, ValueError) as error:
            names = ", ".join(f"`{self.names[at]}`" for at in self.carried)
            text = f"the loop in line {self.line} over {names} cannot be a part of a program"
            raise type(error)(f"{text}: {error}") from error
        results = at_run(ends)
        for at, value in enumerate(results):
            if isinstance(value, Undefined):
                results[at] = Undefined(self.names[at], self.line)
        return tuple(results)

    def _check_others(self, results: Any) -> None:
        for at, (before, after) in enumerate(zip(self.values, results)):
            kept = at in self.carried or isinstance(before, Undefined) or before is after
            if not kept and not _equal(before, after):
                raise TypeError(
                    f"`{self.names[at]}` is a {type(before).__name__}, which a loop of a program "
                    "cannot change"
                )


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except (TypeError, ValueError, RuntimeError):
        return False
