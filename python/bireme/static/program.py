"""Programs, scopes and the guards that choose them.

A program is built by calling layers while it is the default one; `program_guard` swaps the
default, `scope_guard` swaps where values live.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .. import _core
from .._names import set_public_names

Program = _core.Program
_program: Any = Program
_program.__deepcopy__ = lambda self, memo: self.clone()
_program.__reduce__ = lambda self: (Program.parse_from_string, (self.serialize(),))
Scope = _core.Scope
Variable = _core.Variable


def default_main_program() -> Program:
    """The program that layers are added to now.

    >>> import bireme as paddle
    >>> isinstance(paddle.static.default_main_program(), paddle.static.Program)
    True
    """
    return _core.default_main_program()


def default_startup_program() -> Program:
    """The program that fills the parameters of the default main program.

    >>> import bireme as paddle
    >>> isinstance(paddle.static.default_startup_program(), paddle.static.Program)
    True
    """
    return _core.default_startup_program()


@contextmanager
def program_guard(main_program: Program, startup_program: Program | None = None) -> Iterator[None]:
    """Adds layers to the given programs inside the `with` block.

    >>> import bireme as paddle
    >>> main = paddle.static.Program()
    >>> with paddle.static.program_guard(main):
    ...     paddle.static.default_main_program() is main
    True
    """
    _check_program("main_program", main_program)
    old_main = _core.switch_main_program(main_program)
    old_startup = None
    try:
        if startup_program is not None:
            _check_program("startup_program", startup_program)
            old_startup = _core.switch_startup_program(startup_program)
        yield
    finally:
        _core.switch_main_program(old_main)
        if old_startup is not None:
            _core.switch_startup_program(old_startup)


def global_scope() -> Scope:
    """The scope that executors use unless they are given another.

    >>> import bireme as paddle
    >>> paddle.static.global_scope().find_var("no such variable") is None
    True
    """
    return _core.global_scope()


@contextmanager
def scope_guard(scope: Scope) -> Iterator[None]:
    """Makes `scope` the global scope inside the `with` block.

    >>> import bireme as paddle
    >>> with paddle.static.scope_guard(paddle.static.Scope()):
    ...     names = paddle.static.global_scope().names()
    >>> names
    []
    """
    old = _core.switch_scope(scope)
    try:
        yield
    finally:
        _core.switch_scope(old)


@contextmanager
def name_scope(prefix: str | None = None) -> Iterator[None]:
    """Groups layers for the reader of a program; it changes no names and no results.

    Paddle shows the prefix in its graph viewer only; Bireme has none, so the prefix is checked
    and not kept.

    >>> import bireme as paddle
    >>> with paddle.static.name_scope("tower"):
    ...     print("inside")
    inside
    """
    if prefix is not None and (not isinstance(prefix, str) or not prefix):
        raise ValueError(f"`prefix` must be a non-empty string, not {prefix!r}")
    yield


@contextmanager
def device_guard(device: str | None = None) -> Iterator[None]:
    """Marks the layers inside with a device: "cpu", "gpu", "gpu:0", "xpu", "" or None.

    The mark is the attribute `op_device` of an op and of its gradient. All ops of a program run on
    the executor's device, as on a machine without the one that is named; but a job with heter
    workers is cut into stages where the mark changes.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program()):
    ...     x = paddle.static.data("x", [-1, 2])
    ...     with paddle.static.device_guard("gpu"):
    ...         y = paddle.nn.functional.relu(x)
    ...     y.block.ops[-1].attr("op_device")
    'gpu'
    """
    kind, _, index = (device or "").partition(":")
    if kind == "cpu" and index:
        raise ValueError("Should not set device id for cpu.")
    if kind not in ("cpu", "gpu", "xpu", "") or (index and not index.isdecimal()):
        raise ValueError(
            "The Attr(device) should be 'cpu', 'xpu', 'gpu' or custom device, and it can also be"
            f" empty string or None when there is no need to specify device. But received {device}"
        )
    before = _core.switch_device(device or "")
    try:
        yield
    finally:
        _core.switch_device(before)


def cpu_places(device_count: int | None = None) -> list[Any]:
    """As many CPU places as asked for; by default `CPU_NUM` of the environment, or 1.

    >>> import bireme as paddle
    >>> len(paddle.static.cpu_places(2))
    2
    """
    import os

    count = device_count
    if count is None:
        count = _numbers("CPU_NUM", os.environ.get("CPU_NUM", "1"))[0]
    return [_core.CPUPlace()] * count


def cuda_places(device_ids: int | list[int] | None = None) -> list[Any]:
    """A place for each GPU asked for; by default those of `FLAGS_selected_gpus`, or all.

    One that is not there is an error that says so (see `CUDAPlace`).

    >>> import bireme as paddle
    >>> paddle.static.cuda_places([])
    []
    """
    import os

    if device_ids is None:
        chosen = os.environ.get("FLAGS_selected_gpus")
        # Without a GPU the first one is asked for, which says what is missing.
        every = list(range(_core.card_count())) or [0]
        device_ids = _numbers("FLAGS_selected_gpus", chosen) if chosen else every
    elif isinstance(device_ids, int):
        device_ids = [device_ids]
    return [_core.CUDAPlace(number) for number in device_ids]


def _numbers(variable: str, text: str) -> list[int]:
    """The numbers that an environment variable lists."""
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise ValueError(
            f"the environment variable `{variable}` is {text!r}: it must be a number, "
            "or numbers with commas between where several make sense"
        ) from None


def require_static(what: str) -> None:
    """Raises unless static mode is on: a layer with parameters would leave them in no program.

    >>> from bireme.static.program import require_static
    >>> require_static("static.data")
    Traceback (most recent call last):
    ...
    RuntimeError: `static.data` builds a program: call `paddle.enable_static()` first
    """
    if _core.in_dynamic_mode():
        raise RuntimeError(f"`{what}` builds a program: call `paddle.enable_static()` first")


def generated_name() -> str:
    """The first `_generated_var_<number>` that the default main program does not have yet.

    Scripts reset metrics by these names, so they count from zero in each program, as Paddle's do.
    """
    block = _core.default_main_program().global_block()
    number = 0
    while block.has_var(f"_generated_var_{number}"):
        number += 1
    return f"_generated_var_{number}"


def _check_program(argument: str, program: Any) -> None:
    if not isinstance(program, Program):
        raise TypeError(f"`{argument}` must be a `Program`, not {type(program).__name__}")


set_public_names(__name__, also="Program Scope Variable", but="generated_name require_static")
