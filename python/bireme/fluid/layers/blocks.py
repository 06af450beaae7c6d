"""Blocks that run or repeat inside of a program: `While`, `Switch`; `StaticRNN` is 2.x's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ... import _core
from ...static.nn.blocks import append_condition, append_loop, building, check_condition
from ...static.nn.static_rnn import StaticRNN
from ...static.program import Variable

__all__ = ["StaticRNN", "Switch", "While"]

_ops = _core.ops


class While:
    """Runs the ops of a block as long as `cond`, a variable of one bool, is true.

    The block computes `cond` anew and writes it into the same variable.

    >>> import bireme.fluid as fluid
    >>> paddle.enable_static()
    >>> i = fluid.layers.fill_constant([1], "int64", 0)
    >>> n = fluid.layers.fill_constant([1], "int64", 3)
    >>> go = fluid.layers.less_than(i, n)
    >>> with fluid.layers.While(go).block():
    ...     i = fluid.layers.increment(i)
    ...     go = fluid.layers.less_than(i, n, cond=go)
    >>> fluid.Executor(fluid.CPUPlace()).run(fetch_list=[i])[0].tolist()
    [3]
    """

    def __init__(self, cond: Any, is_test: bool = False, name: str | None = None) -> None:
        if not isinstance(check_condition("`cond` of `While`", cond), Variable):
            raise TypeError("`While` is for programs; in eager mode write Python's `while`")
        self._cond, self._is_test = cond, is_test

    @contextmanager
    def block(self) -> Iterator[None]:
        """The ops that are appended meanwhile are those of the loop."""
        with building() as block:
            yield
        append_loop(self._cond, block, self._is_test)


class Switch:
    """Runs the block of the first case whose condition is true, or that of `default`.

    >>> import bireme.fluid as fluid
    >>> paddle.enable_static()
    >>> rate = fluid.layers.fill_constant([1], "float32", 0.1)
    >>> small = fluid.layers.less_than(rate, fluid.layers.fill_constant([1], "float32", 1.0))
    >>> with fluid.layers.Switch() as switch:
    ...     with switch.case(small):
    ...         _ = fluid.layers.assign(fluid.layers.fill_constant([1], "float32", 2.0), rate)
    ...     with switch.default():
    ...         _ = fluid.layers.assign(fluid.layers.fill_constant([1], "float32", 3.0), rate)
    >>> fluid.Executor(fluid.CPUPlace()).run(fetch_list=[rate])[0].tolist()
    [2.0]
    """

    def __init__(self, name: str | None = None) -> None:
        # True as long as no case has been taken.
        self._open: Any = None
        self._inside = False

    def __enter__(self) -> Any:
        self._inside = True
        return self

    def __exit__(self, *error: object) -> None:
        self._inside = False

    @contextmanager
    def case(self, condition: Any) -> Iterator[None]:
        """The ops that are appended meanwhile run if `condition` is the first that is true."""
        self._check_inside("case")
        if not isinstance(check_condition("the condition of a case", condition), Variable):
            raise TypeError("`Switch` is for programs; in eager mode write Python's `if`")
        # A copy: the block may change what the condition was computed from.
        taken = _ops.assign(condition) if self._open is None else self._and(condition)
        closed = _ops.logical_not(condition)
        self._open = closed if self._open is None else _ops.logical_and(self._open, closed)
        with building() as block:
            yield
        append_condition(taken, block)

    @contextmanager
    def default(self) -> Iterator[None]:
        """The ops that are appended meanwhile run if no case was taken."""
        self._check_inside("default")
        if self._open is None:
            raise ValueError("`Switch` needs a `case` before its `default`")
        with building() as block:
            yield
        append_condition(self._open, block)

    def _and(self, condition: Any) -> Any:
        return _ops.logical_and(self._open, condition)

    def _check_inside(self, what: str) -> None:
        if not self._inside:
            raise ValueError(f"`{what}` must be called inside of `with Switch() as switch`")
