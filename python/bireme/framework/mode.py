"""The two modes: ops run at once (eager), or are written into a program (static)."""

from __future__ import annotations

import sys
from typing import Any

from .. import _core
from .._missing import missing_names

__all__ = ["disable_signal_handler", "disable_static", "enable_static", "in_dynamic_mode"]

#: The names that programs have used so far, kept here while the mode is eager. As in Paddle,
#: programs go on counting where they were, and eager mode counts from zero each time it starts.
_names_of_programs = [_core.UniqueNames()]


def enable_static() -> None:
    """From now on layers and ops are written into the default program.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> paddle.in_dynamic_mode()
    False
    >>> paddle.disable_static()
    """
    if _core.in_dynamic_mode():
        _core.switch_names(_names_of_programs[0])
    _core.enable_static()


def disable_static(place: Any = None) -> None:
    """From now on ops run at once, which is how a program starts.

    >>> import bireme as paddle
    >>> paddle.disable_static()
    >>> paddle.in_dynamic_mode()
    True
    """
    if place is not None:
        from .place import set_place

        set_place(place)
    if not _core.in_dynamic_mode():
        _names_of_programs[0] = _core.switch_names(_core.UniqueNames())
    _core.disable_static()


def in_dynamic_mode() -> bool:
    """Whether ops run at once.

    >>> import bireme as paddle
    >>> paddle.in_dynamic_mode()
    True
    """
    return _core.in_dynamic_mode()


def disable_signal_handler() -> None:
    """Does nothing: Bireme installs no signal handlers that could be in the way.

    >>> import bireme as paddle
    >>> paddle.disable_signal_handler() is None
    True
    """


def _refuse_truth(variable: Any) -> bool:
    frame = sys._getframe(1)
    place = f"{frame.f_code.co_filename}, line {frame.f_lineno}"
    raise _core.InvalidArgumentError(
        f"{place}: variable `{variable.name}` has no value while a program is built, so `if`, "
        "`while` and `and` cannot look at it: choose between results with `paddle.where` or "
        "`paddle.static.nn.cond`, and loop with `paddle.static.nn.while_loop`; `paddle.jit` rewrites "
        "`if`, `for` and `while` where nothing leaves them (`break`, `continue`, a `return` in between)"
    )


# Python would take every variable for true.
_core.Variable.__bool__ = _refuse_truth  # type: ignore[method-assign,assignment]

__getattr__ = missing_names(__name__)
