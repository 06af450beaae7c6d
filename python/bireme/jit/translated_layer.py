"""A model that was saved for inference, as a layer."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .. import _core
from ..framework import pickles
from ..nn import Layer

__all__ = ["TranslatedLayer", "load"]


def load(path: str, **configs: Any) -> TranslatedLayer:
    """Loads a model that `jit.save` or `static.save_inference_model` has written, here or in Paddle.

    >>> import bireme as paddle
    >>> paddle.jit.load("no/such/model")
    Traceback (most recent call last):
    ...
    FileNotFoundError: there is no model at `no/such/model`: `no/such/model.pdmodel` does not exist
    """
    if configs:
        raise NotImplementedError(f"`jit.load` does not take `{next(iter(configs))}`")
    if not os.path.isfile(f"{path}.pdmodel"):
        raise FileNotFoundError(f"there is no model at `{path}`: `{path}.pdmodel` does not exist")
    return TranslatedLayer(path)


class TranslatedLayer(Layer):
    """Runs a saved model. Its results have no gradients: it cannot be trained further.

    >>> import bireme as paddle
    >>> issubclass(paddle.jit.TranslatedLayer, paddle.nn.Layer)
    True
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self._scope = _core.Scope()
        self._program, self._feeds, self._fetches = _core.load_inference(self._scope, path)
        # On the device that is current, as a layer that was built would be.
        self._executor = _core.Executor()
        self._structured = _structured_names(f"{path}.pdiparams.info")
        self.training = False

    def forward(self, *inputs: Any) -> Any:
        """The results for these inputs, in the order in which they were saved."""
        if len(inputs) != len(self._feeds):
            raise ValueError(f"the model takes {len(self._feeds)} inputs, not {len(inputs)}")
        feed = {n: np.asarray(value) for n, value in zip(self._feeds, inputs, strict=True)}
        results = self._executor.run(self._program, feed, self._fetches, self._scope)
        tensors = [_core.to_tensor(result) for result in results]
        return tensors[0] if len(tensors) == 1 else tensors

    def program(self, method_name: str = "forward") -> Any:
        """The program that was loaded."""
        if method_name != "forward":
            raise ValueError(f"the model has a program for `forward` only, not `{method_name}`")
        return self._program

    def state_dict(self) -> dict[str, Any]:  # type: ignore[override]
        """The values of the model, by the names they had in the layer that was saved."""
        tensors: dict[str, Any] = {}
        for name in [*self._structured, *self._scope.names()]:
            value = np.array(self._scope.var(name).get_tensor())
            tensors.setdefault(self._structured.get(name, name), _core.to_tensor(value))
        return tensors

    def train(self) -> None:
        """Refused: the model can only be run."""
        raise NotImplementedError(
            "a model loaded by `jit.load` cannot be trained: build its layer, and load the values "
            "with `set_state_dict(model.state_dict())`"
        )


def _structured_names(path: str) -> dict[str, str]:
    if not os.path.isfile(path):
        return {}
    with open(path, "rb") as file:
        about = pickles.restore(file)
    return {name: entry.get("structured_name", name) for name, entry in about.items()}
