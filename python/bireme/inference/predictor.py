"""Runs a saved model on arrays."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .. import _core
from .._names import set_public_names
from ..static import Executor, Scope, scope_guard
from ..static.inference import load_model
from .config import Config


class Tensor:
    """An input or output of a predictor.

    >>> paddle.inference.Tensor("x").name()
    'x'
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._value: np.ndarray | None = None
        self._lod: list[list[int]] = []

    def name(self) -> str:
        """The name of the variable."""
        return self._name

    def shape(self) -> list[int]:
        """The shape of the value; [] before there is one."""
        return [] if self._value is None else list(self._value.shape)

    def reshape(self, shape: list[int]) -> None:
        """Paddle makes room first; here the array that is copied in brings its shape."""

    def copy_from_cpu(self, data: np.ndarray) -> None:
        """Sets the value."""
        if not isinstance(data, np.ndarray):
            raise TypeError(f"a numpy array is needed, not {type(data).__name__}")
        self._value = data

    def copy_to_cpu(self) -> np.ndarray:
        """The value."""
        if self._value is None:
            raise RuntimeError(f"`{self._name}` has no value yet: call `run()` first")
        return self._value

    def set_lod(self, lod: list[list[int]]) -> None:
        """Sets the offsets of sequences."""
        self._lod = lod

    def lod(self) -> list[list[int]]:
        """The offsets of sequences."""
        return self._lod

    def _fed(self) -> Any:
        if not self._lod:
            return self.copy_to_cpu()
        tensor = _core.LoDTensor()
        tensor.set(self.copy_to_cpu(), None)
        tensor.set_lod(self._lod)
        return tensor


class Predictor:
    """A loaded model with its own scope; see the example at the top of `paddle.inference`."""

    def __init__(self, config: Config) -> None:
        self._scope = Scope()
        self._executor = Executor(config._place, _threads=config._threads)
        with scope_guard(self._scope):
            self._program, feeds, self._fetches = _load(config)
        self._inputs = {name: Tensor(name) for name in feeds}
        self._outputs = {name: Tensor(name) for name in self._fetches}

    def get_input_names(self) -> list[str]:
        """The names of the inputs, in order."""
        return list(self._inputs)

    def get_output_names(self) -> list[str]:
        """The names of the outputs, in order."""
        return list(self._outputs)

    def get_input_handle(self, name: str) -> Tensor:
        """The input of that name."""
        return _named("input", self._inputs, name)

    def get_output_handle(self, name: str) -> Tensor:
        """The output of that name."""
        return _named("output", self._outputs, name)

    def run(self, inputs: list[np.ndarray] | None = None) -> Any:
        """Computes the outputs from the inputs; given arrays, it returns arrays."""
        if inputs is not None:
            for handle, data in zip(self._inputs.values(), inputs, strict=True):
                handle.copy_from_cpu(data)
        feed = {name: handle._fed() for name, handle in self._inputs.items()}
        values = self._executor._core.run(self._program, feed, self._fetches, self._scope, False)
        for handle, value in zip(self._outputs.values(), values, strict=True):
            handle.copy_from_cpu(np.array(value))
            handle.set_lod(value.lod())
        if inputs is not None:
            return [handle.copy_to_cpu() for handle in self._outputs.values()]
        return True

    def clone(self) -> Predictor:
        """Another predictor with the same parameters, for another thread."""
        other = object.__new__(Predictor)
        other._scope, other._program, other._fetches = self._scope, self._program, self._fetches
        other._executor = Executor(self._executor.place)
        other._inputs = {name: Tensor(name) for name in self._inputs}
        other._outputs = {name: Tensor(name) for name in self._outputs}
        return other

    def clear_intermediate_tensor(self) -> None:
        """Frees temporaries; the plan holds none between runs."""

    def try_shrink_memory(self) -> int:
        """How many bytes were given back: none are kept."""
        return 0


def create_predictor(config: Config) -> Predictor:
    """Loads the model that `config` names.

    >>> paddle.inference.create_predictor(paddle.inference.Config())
    Traceback (most recent call last):
    ...
    ValueError: the `Config` names no model: give it a folder, a prefix or two files
    """
    return Predictor(config)


def _load(config: Config) -> tuple[Any, list[str], list[str]]:
    if config._model is None:
        raise ValueError("the `Config` names no model: give it a folder, a prefix or two files")
    if config._params is None:
        return load_model(config._model, None, None)
    folder, model = os.path.split(config._model)
    params = os.path.relpath(config._params, folder or ".")
    return load_model(folder or ".", model, params)


def _named(kind: str, handles: dict[str, Tensor], name: str) -> Tensor:
    if name not in handles:
        raise ValueError(f"the model has no {kind} `{name}`: it has {', '.join(handles)}")
    return handles[name]


set_public_names(__name__)
