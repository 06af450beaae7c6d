"""A function that can be written down as a program, and the writing down."""

from __future__ import annotations

import functools
import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .. import _core
from ..static import InputSpec
from .rewrite import rewritten

__all__ = ["StaticFunction", "Trace", "trace_for_saving"]


class StaticFunction:
    """A function marked by `to_static`: runs as ever, and knows what inputs to be saved with."""

    __name__: str

    def __init__(self, function: Callable[..., Any], input_spec: Any = None) -> None:
        functools.update_wrapper(self, function)
        if input_spec is not None and not isinstance(input_spec, (list, tuple)):
            raise TypeError(f"`input_spec` must be a list, not {type(input_spec).__name__}")
        self.function = function
        self.input_spec = input_spec
        self.last_inputs: list[Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            self.last_inputs = [_replace_tensors(arg) for arg in args]
        return self.function(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> StaticFunction:
        """As a method: one per object, so that each remembers its own inputs."""
        if instance is None:
            return self
        bound = StaticFunction(self.function.__get__(instance, owner), self.input_spec)
        # Layers keep what is not a parameter in the dict, where Python finds it from now on.
        instance.__dict__[self.__name__] = bound
        return bound

    @property
    def main_program(self) -> Any:
        """The program of the function, made anew from its inputs."""
        return trace(self, None).program

    def rollback(self) -> Callable[..., Any]:
        """The function as it was before it was marked."""
        return self.function


class Trace:
    """A function as a program: its feeds, its results, and the tensors it uses."""

    def __init__(
        self, program: Any, scope: Any, feeds: list[str], fetches: list[Any], state: dict[str, Any]
    ) -> None:
        self.program = program
        # Holds copies of all tensors that the function has used.
        self.scope = scope
        self.feeds = feeds
        self.fetches = fetches
        # Structured name to tensor.
        self.state = state

    def save(self, prefix: str) -> None:
        """Writes the program, the values of the tensors, and what Paddle wants to know of them."""
        os.makedirs(os.path.dirname(prefix) or ".", exist_ok=True)
        program = self.program.clone(for_test=True)
        fetches = [variable.name for variable in self.fetches]
        _core.save_inference(self.scope, program, self.feeds, fetches, prefix, "prefix")
        block = program.global_block()
        about = {
            tensor.name: _about(structured, tensor)
            for structured, tensor in self.state.items()
            if block.has_var(tensor.name)
        }
        with open(f"{prefix}.pdiparams.info", "wb") as file:
            pickle.dump(about, file, protocol=2)


def trace_for_saving(layer: Any, input_spec: Any) -> Trace:
    """Traces a layer as it behaves in inference, or a function."""
    from ..nn import Layer

    if not isinstance(layer, Layer):
        if not callable(layer):
            raise TypeError(f"`jit.save` takes a layer or a function, not {type(layer).__name__}")
        return trace(layer, input_spec)
    training = {sublayer: sublayer.training for sublayer in layer.sublayers(include_self=True)}
    layer.eval()
    try:
        return trace(layer.forward, input_spec, layer)
    finally:
        for sublayer, was_training in training.items():
            sublayer.training = was_training


def trace(function: Any, input_spec: Any, layer: Any = None) -> Trace:
    """Calls the function with variables, in a program of its own."""
    marked = function if isinstance(function, StaticFunction) else StaticFunction(function)
    specs = input_spec if input_spec is not None else marked.input_spec or marked.last_inputs
    if specs is None:
        raise ValueError(
            f"the inputs of `{marked.__name__}` are not known: give `input_spec`, or call it first"
        )
    owner = layer if layer is not None else getattr(marked.function, "__self__", None)
    feeds: list[str] = []
    with _fresh_program() as (program, scope):
        names = _argument_names(marked.function)
        inputs = [_declare(s, n, feeds) for s, n in zip(specs, names, strict=False)]
        # The layer is called, and not its method, so that its hooks are written down too.
        with _rewritten_layers(owner):
            results = (layer or rewritten(marked.function))(*inputs)
    fetches = list(_variables(results))
    if not fetches:
        raise ValueError(f"`{marked.__name__}` returns nothing that depends on its inputs")
    return Trace(program, scope, feeds, fetches, _state(owner))


@contextmanager
def _rewritten_layers(owner: Any) -> Iterator[None]:
    """Meanwhile the layers of a layer run with their control flow rewritten."""
    from ..nn import Layer

    layers = owner.sublayers(include_self=True) if isinstance(owner, Layer) else []
    # The package's own layers have none.
    layers = [layer for layer in layers if not type(layer).__module__.startswith("bireme.")]
    before = {id(layer): layer.__dict__.get("forward") for layer in layers}
    try:
        for layer in layers:
            forward = layer.forward
            plain = forward.function if isinstance(forward, StaticFunction) else forward
            layer.__dict__["forward"] = rewritten(plain)
        yield
    finally:
        for layer in layers:
            layer.__dict__.pop("forward", None)
            if before[id(layer)] is not None:
                layer.__dict__["forward"] = before[id(layer)]


@contextmanager
def _fresh_program() -> Iterator[Any]:
    # Names go on counting: tensors from outside must not meet new ones of the same name.
    program, scope, was_dynamic = _core.Program(), _core.Scope(), _core.in_dynamic_mode()
    outer_scope = _core.switch_scope(scope)
    main = _core.switch_main_program(program)
    startup = _core.switch_startup_program(_core.Program())
    _core.enable_static()
    try:
        yield program, scope
    finally:
        _core.switch_main_program(main)
        _core.switch_startup_program(startup)
        _core.switch_scope(outer_scope)
        if was_dynamic:
            _core.disable_static()


def _argument_names(function: Callable[..., Any]) -> list[str]:
    import inspect

    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    names = [parameter.name for parameter in parameters if parameter.kind in kinds]
    # For `*inputs`, as many as are described.
    return names + [f"input_{i}" for i in range(len(names), 100)]


def _declare(spec: Any, name: str, feeds: list[str]) -> Any:
    """A variable for every description in `spec`; everything else stays as it is."""
    if isinstance(spec, dict):
        return {key: _declare(inner, f"{name}_{key}", feeds) for key, inner in spec.items()}
    if isinstance(spec, (list, tuple)):
        return type(spec)(_declare(inner, f"{name}_{i}", feeds) for i, inner in enumerate(spec))
    if isinstance(spec, _core.Tensor):
        spec = InputSpec.from_tensor(spec, name)
    if not isinstance(spec, InputSpec):
        return spec
    feeds.append(spec.name or name)
    return (
        _core.default_main_program()
        .global_block()
        .create_var(
            name=feeds[-1],
            shape=list(spec.shape),
            dtype=spec.dtype,
            stop_gradient=spec.stop_gradient,
            is_data=True,
        )
    )


def _replace_tensors(value: Any) -> Any:
    """Keeps the description of an argument, and lets go of its memory."""
    if isinstance(value, _core.Tensor):
        spec = InputSpec.from_tensor(value)
        spec.name = None
        return spec
    if isinstance(value, dict):
        return {key: _replace_tensors(inner) for key, inner in value.items()}
    return type(value)(map(_replace_tensors, value)) if type(value) in (list, tuple) else value


def _variables(results: Any) -> Iterator[Any]:
    if isinstance(results, _core.Variable):
        yield results
    elif isinstance(results, (list, tuple)):
        for result in results:
            yield from _variables(result)
    elif isinstance(results, dict):
        for result in results.values():
            yield from _variables(result)


def _state(layer: Any) -> dict[str, Any]:
    if not hasattr(layer, "named_parameters"):
        return {}
    return {**dict(layer.named_parameters()), **dict(layer.named_buffers())}


def _about(structured: str, tensor: Any) -> dict[str, Any]:
    about = {"structured_name": structured, "stop_gradient": tensor.stop_gradient}
    if isinstance(tensor, _core.Parameter):
        about["trainable"] = tensor.trainable
    return about
