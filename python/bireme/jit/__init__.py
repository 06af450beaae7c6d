"""Layers and functions as programs: `to_static` marks them, `save` writes them, `load` runs them.

A program is made by calling the function once with variables in the place of tensors. `if`, `for` and
`while` over tensors (`if x.sum() > 0`) are rewritten before (`rewrite.py`), and become ops that run blocks;
what cannot be written down that way is an error that names the line.
"""

from __future__ import annotations

import os
import types
from collections.abc import Callable
from typing import Any

from .._missing import missing_names
from .rewrite import leave, untouched_modules
from .static_function import StaticFunction, trace_for_saving
from .translated_layer import TranslatedLayer, load

__all__ = [
    "TranslatedLayer",
    "enable_to_static",
    "ignore_module",
    "load",
    "not_to_static",
    "save",
    "to_static",
]


def to_static(
    function: Any = None,
    input_spec: list[Any] | None = None,
    build_strategy: Any = None,
    backend: str | None = None,
    **kwargs: Any,
) -> Any:
    """Marks a layer, a method or a function to be saved as a program, with these inputs.

    Called with tensors it runs as before and can be trained. `build_strategy`, `full_graph` and
    `backend=None` steer Paddle's compiler and have no meaning here.

    >>> import bireme as paddle
    >>> @paddle.jit.to_static
    ... def twice(x):
    ...     return x * 2
    >>> twice(paddle.to_tensor([1.0])).tolist()
    [2.0]
    """
    _check_options(backend, kwargs)
    if function is None:
        return lambda inner: to_static(inner, input_spec)
    from ..nn import Layer

    if isinstance(function, Layer):
        layer: Any = function
        layer.forward = StaticFunction(_plain(function.forward), input_spec)
        return function
    return StaticFunction(_plain(function), input_spec)


def not_to_static(func: Callable[..., Any] | None = None) -> Any:
    """Marks a function whose control flow `to_static` leaves as it is.

    >>> import bireme as paddle
    >>> @paddle.jit.not_to_static
    ... def plain(x):
    ...     return x
    >>> plain(3)
    3
    """
    if func is None:
        return not_to_static
    return leave(func) if isinstance(func, types.FunctionType) else func


def ignore_module(modules: list[Any]) -> None:
    """Names modules whose functions `to_static` leaves as they are.

    >>> import bireme as paddle
    >>> paddle.jit.ignore_module([])
    """
    untouched_modules.update(module.__name__ for module in modules)


def enable_to_static(enable_to_static_bool: bool) -> None:
    """Switches `to_static` off and on; off is how calls with tensors run anyway.

    >>> import bireme as paddle
    >>> paddle.jit.enable_to_static(True) is None
    True
    """
    if not isinstance(enable_to_static_bool, bool):
        raise TypeError(f"`enable_to_static` takes a bool, not {enable_to_static_bool!r}")


def save(layer: Any, path: str, input_spec: list[Any] | None = None, **configs: Any) -> None:
    """Saves a layer or function as a model for inference: `path.pdmodel` and `path.pdiparams`.

    `input_spec` describes the inputs of `forward`: an `InputSpec` or an example tensor each, or a
    value that stays as it is. It can be left out if `to_static` was given one, or if the marked
    layer has been called.

    >>> import bireme as paddle, tempfile
    >>> layer = paddle.nn.Linear(3, 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     spec = [paddle.static.InputSpec([None, 3], "float32", "x")]
    ...     paddle.jit.save(layer, folder + "/linear", input_spec=spec)
    ...     loaded = paddle.jit.load(folder + "/linear")
    >>> loaded(paddle.ones([4, 3])).shape
    [4, 2]
    """
    if configs:
        raise NotImplementedError(f"`jit.save` does not take `{next(iter(configs))}`")
    if not os.path.basename(path):
        raise ValueError(f"`{path}` is a folder: the path must end with the prefix of the files")
    trace_for_saving(layer, input_spec).save(path)


def _check_options(backend: str | None, kwargs: dict[str, Any]) -> None:
    if backend not in (None, ""):
        raise NotImplementedError(f"`to_static` has no backend `{backend}`")
    for name in kwargs:
        if name not in ("full_graph", "property"):
            raise TypeError(f"`to_static` does not take `{name}`")
    if kwargs.get("property"):
        raise NotImplementedError("`to_static` cannot save properties")


def _plain(function: Any) -> Callable[..., Any]:
    if isinstance(function, StaticFunction):
        return function.function
    if not callable(function):
        raise TypeError(f"`to_static` takes a layer or a function, not {type(function).__name__}")
    return function


__getattr__ = missing_names(__name__)
