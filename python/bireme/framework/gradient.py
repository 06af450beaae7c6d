"""Which ops are remembered for gradients, and gradients of chosen tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .. import _core
from .._missing import missing_names

__all__ = ["enable_grad", "grad", "is_grad_enabled", "no_grad", "set_grad_enabled"]


class _GradMode:
    """A context manager and decorator that switches the recording of ops on or off."""

    enabled: bool
    # What was set before, for each time it was entered.
    before: list[bool]

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        mode = super().__new__(cls)
        # Paddle has `@no_grad()` only; `@no_grad` has but one meaning.
        return mode if function is None else mode(function)

    def __enter__(self) -> None:
        # One object may be entered again before it is left, by recursion.
        self.__dict__.setdefault("before", []).append(_core.set_grad_enabled(self.enabled))

    def __exit__(self, *error: object) -> None:
        _core.set_grad_enabled(self.before.pop())

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if _is_generator(function):
            return self._wrap_generator(function)

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return wrapped

    def _wrap_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            # Between two values the caller's own setting holds.
            generator, done = function(*args, **kwargs), object()
            while True:
                with self:
                    value = next(generator, done)
                if value is done:
                    return
                yield value

        return wrapped


class no_grad(_GradMode):
    """Ops inside are not remembered: results have no gradients, and memory is saved.

    >>> import bireme as paddle
    >>> x = paddle.to_tensor([1.0], stop_gradient=False)
    >>> with paddle.no_grad():
    ...     y = x * 2
    >>> y.stop_gradient
    True
    """

    enabled = False


class enable_grad(_GradMode):
    """Ops inside are remembered, also within `no_grad`.

    >>> import bireme as paddle
    >>> x = paddle.to_tensor([1.0], stop_gradient=False)
    >>> with paddle.no_grad(), paddle.enable_grad():
    ...     y = x * 2
    >>> y.stop_gradient
    False
    """

    enabled = True


class set_grad_enabled:
    """Switches gradients on or off, for a `with` block or from now on.

    >>> import bireme as paddle
    >>> with paddle.set_grad_enabled(False):
    ...     paddle.is_grad_enabled()
    False
    >>> paddle.is_grad_enabled()
    True
    """

    def __init__(self, mode: bool) -> None:
        self.before = _core.set_grad_enabled(bool(mode))

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        _core.set_grad_enabled(self.before)


def is_grad_enabled() -> bool:
    """Whether ops are remembered for gradients.

    >>> import bireme as paddle
    >>> paddle.is_grad_enabled()
    True
    """
    return _core.is_grad_enabled()


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool = False,
    no_grad_vars: Any = None,
) -> list[Any]:
    """The gradients of outputs by inputs, without touching anybody's `.grad`.

    With `create_graph` they have gradients themselves, for penalties on gradients and steps that are
    differentiated: as often as is wanted, through the ops that docs/ops.md marks with `twice`.

    >>> import bireme as paddle
    >>> x = paddle.to_tensor([3.0], stop_gradient=False)
    >>> paddle.grad(x * x, x)[0].tolist()
    [6.0]
    >>> (slope,) = paddle.grad(x**3, x, create_graph=True)
    >>> paddle.grad(slope, x)[0].tolist()
    [18.0]
    """
    if not only_inputs:
        raise NotImplementedError("`only_inputs` must be True, as in Paddle")
    outputs = _as_list(outputs)
    grad_outputs = None if grad_outputs is None else _as_list(grad_outputs)
    if grad_outputs is not None and len(grad_outputs) != len(outputs):
        raise ValueError(
            f"`grad_outputs` has {len(grad_outputs)} tensors, but there are {len(outputs)} outputs"
        )
    no_grad_vars = [] if no_grad_vars is None else _as_list(no_grad_vars)
    return _core.grad(
        outputs,
        _as_list(inputs),
        grad_outputs,
        bool(retain_graph),
        bool(create_graph),
        allow_unused,
        no_grad_vars,
    )


def _as_list(tensors: Any) -> list[Any]:
    return list(tensors) if isinstance(tensors, (Sequence, set)) else [tensors]


def _is_generator(function: Callable[..., Any]) -> bool:
    # The flag that `inspect.isgeneratorfunction` looks at, without importing it.
    code = getattr(function, "__code__", None)
    return code is not None and bool(code.co_flags & 0x20)


__getattr__ = missing_names(__name__)
