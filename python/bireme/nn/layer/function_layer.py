"""Layers that are one function with settings: `ELU(alpha)` calls `functional.elu(x, alpha)`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from .layers import Layer


class FunctionLayer(Layer):
    """A layer whose `forward` calls one function.

        class ELU(FunctionLayer, of=functional.elu): ...

    The function's arguments named in `takes` are those of `forward`; the layer is made with the
    others, or with those named in `settings`, and has the function's defaults. Signatures for
    editors are in the stub beside a module, which a test writes.
    """

    _settings: inspect.Signature

    def __init_subclass__(
        cls,
        of: Callable[..., Any] | None = None,
        takes: str = "x",
        settings: str | None = None,
    ) -> None:
        super().__init_subclass__()
        made: Any = cls
        if of is None:
            # A user's subclass, which has the function of its base, and perhaps its own settings.
            if "__init__" in cls.__dict__:
                made.__signature__ = None
            return
        arguments = inspect.signature(of).parameters
        given = takes.split()
        made_with = [name for name in arguments if name not in given]
        if settings is not None:
            made_with = settings.split()
        cls._settings = inspect.Signature([arguments[name] for name in made_with])
        made.__signature__ = cls._settings.replace(return_annotation="None")
        this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        made.__init__ = _init()
        made.__init__.__signature__ = inspect.Signature(
            [this, *cls._settings.parameters.values()], return_annotation="None"
        )
        fields = [name for name in made_with if name != "name"]
        made.forward = _forward(of, given, fields)
        made.forward.__signature__ = inspect.Signature(
            [this, *(arguments[name] for name in given)], return_annotation="Tensor"
        )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        try:
            bound = self._settings.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}: {error}") from None
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            if name != "name":
                setattr(self, f"_{name}", value)

    def extra_repr(self) -> str:
        names = [name for name in self._settings.parameters if name != "name"]
        return ", ".join(f"{name}={getattr(self, f'_{name}')}" for name in names)


def _init() -> Any:
    def __init__(self: FunctionLayer, *args: Any, **kwargs: Any) -> None:
        FunctionLayer.__init__(self, *args, **kwargs)

    return __init__


def _forward(function: Callable[..., Any], takes: list[str], settings: list[str]) -> Any:
    fields = [(name, f"_{name}") for name in settings]

    def forward(self: Layer, *args: Any, **kwargs: Any) -> Any:
        if len(args) > len(takes):
            raise TypeError(f"forward() takes {' and '.join(takes)}, but got {len(args)} arguments")
        for name in kwargs:
            if name not in takes:
                raise TypeError(f"forward() got an unexpected keyword argument '{name}'")
        kwargs.update((name, getattr(self, field)) for name, field in fields)
        return function(*args, **kwargs)

    return forward
