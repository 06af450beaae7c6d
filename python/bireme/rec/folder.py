"""The Python files of a model folder: found beside its config, imported by their names."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from .config import Config


def import_from(folder: str, name: str) -> Any:
    """The module `name` of `folder`; what lies beside it can be imported by it.

    The folder comes first, and a module of the same name from elsewhere is not taken for it: `net`
    and `reader` are in every folder.
    """
    folder = os.path.abspath(folder)
    if folder in sys.path:
        sys.path.remove(folder)
    sys.path.insert(0, folder)
    # `../criteo_reader` and `criteo_reader.py` name a file, too.
    path, name = os.path.split(name.removesuffix(".py"))
    if path:
        return import_from(os.path.join(folder, path), name)
    if not os.path.exists(os.path.join(folder, *name.split(".")) + ".py"):
        raise FileNotFoundError(f"there is no `{name}.py` in `{folder}`")
    for known in list(sys.modules):
        file = getattr(sys.modules[known], "__file__", None) or ""
        beside = os.path.join(folder, *known.split(".")) + ".py"
        if os.path.exists(beside) and os.path.abspath(file) != beside:
            # Another model's file of this name, in a process that has trained both.
            del sys.modules[known]
    return importlib.import_module(name)


def static_model(config: Config) -> Any:
    """The `StaticModel` of a folder."""
    return import_from(config["config_abs_dir"], "static_model").StaticModel(config)


def eager_model(config: Config) -> Any:
    """The `DygraphModel` of a folder."""
    return import_from(config["config_abs_dir"], "dygraph_model").DygraphModel()


def infer_model(config: Config) -> Any:
    """As `static_model`: what a static model feeds and computes for prediction is its own."""
    return static_model(config)
