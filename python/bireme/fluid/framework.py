"""Programs, modes and places under their 1.x names.

Paddle 1.x is static unless a script says `dygraph.guard()`, Bireme is eager unless it says
`enable_static()`. So what can only mean a program (`layers.data`, `program_guard`, an optimizer
without parameters...) turns static mode on by itself, outside of a `dygraph.guard()`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .. import _core, static
from .._missing import missing_names
from ..static import (
    Program,
    Variable,
    cpu_places,
    cuda_places,
    device_guard,
    name_scope,
)

Parameter = _core.Parameter

__all__ = [
    "Parameter",
    "Program",
    "Variable",
    "cpu_places",
    "cuda_places",
    "default_main_program",
    "default_startup_program",
    "device_guard",
    "dygraph_guard",
    "in_dygraph_mode",
    "name_scope",
    "program_guard",
    "static_by_default",
]

_dygraph_guards = 0


def static_by_default() -> None:
    """Turns static mode on, unless inside a `dygraph.guard()`.

    >>> paddle.fluid.framework.static_by_default()
    >>> paddle.in_dynamic_mode()
    False
    """
    if not _dygraph_guards:
        _core.enable_static()


@contextmanager
def dygraph_guard(place: Any = None) -> Iterator[None]:
    """Eager mode inside the `with` block; `place` must be a CPU place or None.

    >>> with paddle.fluid.dygraph.guard():
    ...     paddle.fluid.in_dygraph_mode()
    True
    """
    global _dygraph_guards
    was_static = not _core.in_dynamic_mode()
    _dygraph_guards += 1
    _core.disable_static()
    try:
        yield
    finally:
        _dygraph_guards -= 1
        if was_static:
            _core.enable_static()


def in_dygraph_mode() -> bool:
    """Whether layers compute at once.

    >>> paddle.fluid.in_dygraph_mode()
    True
    """
    return _core.in_dynamic_mode()


def default_main_program() -> Program:
    """The program that layers are added to now.

    >>> isinstance(paddle.fluid.default_main_program(), paddle.fluid.Program)
    True
    """
    static_by_default()
    return static.default_main_program()


def default_startup_program() -> Program:
    """The program that fills the parameters of the default main program.

    >>> isinstance(paddle.fluid.default_startup_program(), paddle.fluid.Program)
    True
    """
    static_by_default()
    return static.default_startup_program()


@contextmanager
def program_guard(main_program: Program, startup_program: Program | None = None) -> Iterator[None]:
    """Adds layers to the given programs inside the `with` block.

    >>> main = paddle.fluid.Program()
    >>> with paddle.fluid.program_guard(main):
    ...     paddle.fluid.default_main_program() is main
    True
    """
    static_by_default()
    with static.program_guard(main_program, startup_program):
        yield


__getattr__ = missing_names(__name__)
