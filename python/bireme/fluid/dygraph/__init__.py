"""Eager mode under its 1.x names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ... import _core
from ..._missing import missing_names
from ...framework import no_grad
from ...framework.io import load as _load
from ...framework.io import save as _save
from ...nn import Layer, LayerList, ParameterList, Sequential
from ..framework import dygraph_guard as guard
from ..framework import in_dygraph_mode as enabled
from .nn import BatchNorm, Conv2D, Dropout, Embedding, LayerNorm, Linear, Pool2D

__all__ = [
    "BatchNorm",
    "Conv2D",
    "Dropout",
    "Embedding",
    "Layer",
    "LayerList",
    "LayerNorm",
    "Linear",
    "ParameterList",
    "Pool2D",
    "Sequential",
    "disable_dygraph",
    "enable_dygraph",
    "enabled",
    "guard",
    "load_dygraph",
    "no_grad",
    "save_dygraph",
    "to_variable",
]


def enable_dygraph(place: Any = None) -> None:
    """Turns eager mode on.

    >>> paddle.fluid.enable_dygraph()
    >>> paddle.fluid.in_dygraph_mode()
    True
    """
    _core.disable_static()


def disable_dygraph() -> None:
    """Turns static mode on.

    >>> paddle.fluid.disable_dygraph()
    >>> paddle.fluid.in_dygraph_mode()
    False
    """
    _core.enable_static()


def to_variable(
    value: Any, name: str | None = None, zero_copy: bool | None = None, dtype: Any = None
) -> Any:
    """An eager tensor of an array; `name` and `zero_copy` have no meaning here.

    >>> import numpy as np
    >>> paddle.fluid.dygraph.to_variable(np.ones([2], "float32")).tolist()
    [1.0, 1.0]
    """
    return _core.to_tensor(value, dtype=dtype)


def save_dygraph(state_dict: Mapping[str, Any], model_path: str) -> None:
    """Saves a state to `model_path` + .pdparams, or .pdopt for that of an optimizer.

    >>> import os, tempfile
    >>> prefix = os.path.join(tempfile.mkdtemp(), "model")
    >>> paddle.fluid.dygraph.save_dygraph(paddle.nn.Linear(1, 1).state_dict(), prefix)
    >>> parameters, optimizer = paddle.fluid.dygraph.load_dygraph(prefix)
    >>> sorted(parameters), optimizer
    (['bias', 'weight'], None)
    """
    is_model = any(isinstance(value, _core.Parameter) for value in state_dict.values())
    _save(dict(state_dict), model_path + (".pdparams" if is_model else ".pdopt"))


def load_dygraph(model_path: str) -> tuple[Any, Any]:
    """The states that `save_dygraph` wrote: of the model and of the optimizer, or None.

    >>> paddle.fluid.dygraph.load_dygraph("nowhere")
    Traceback (most recent call last):
    ...
    FileNotFoundError: there is neither `nowhere.pdparams` nor `nowhere.pdopt`
    """
    import os

    prefix = model_path.removesuffix(".pdparams").removesuffix(".pdopt")
    files = [prefix + suffix for suffix in (".pdparams", ".pdopt")]
    if not any(map(os.path.exists, files)):
        raise FileNotFoundError(f"there is neither `{files[0]}` nor `{files[1]}`")
    parameters, state = (_load(file) if os.path.exists(file) else None for file in files)
    return parameters, state


__getattr__ = missing_names(__name__)
