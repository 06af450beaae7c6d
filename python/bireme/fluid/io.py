"""Files of Paddle 1.x, readers and loaders: `fluid.io`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from .. import _core
from .._missing import missing_names
from ..batch import batch
from ..io import DataLoader
from ..reader import (
    buffered,
    cache,
    chain,
    compose,
    firstn,
    map_readers,
    multiprocess_reader,
    shuffle,
    xmap_readers,
)
from ..static import load, load_program_state, save, set_program_state
from ..static.executor import fetch_names
from ..static.inference import load_model
from ..static.io import is_parameter, is_persistable, load_vars, save_vars
from ..static.program import Program, Variable, default_main_program, global_scope

__all__ = [
    "DataLoader",
    "batch",
    "buffered",
    "cache",
    "chain",
    "compose",
    "firstn",
    "get_program_parameter",
    "get_program_persistable_vars",
    "is_parameter",
    "is_persistable",
    "load",
    "load_inference_model",
    "load_params",
    "load_persistables",
    "load_program_state",
    "load_vars",
    "map_readers",
    "multiprocess_reader",
    "save",
    "save_inference_model",
    "save_params",
    "save_persistables",
    "save_vars",
    "set_program_state",
    "shuffle",
    "xmap_readers",
]


def save_persistables(
    executor: Any,
    dirname: str,
    main_program: Program | None = None,
    filename: str | None = None,
) -> None:
    """Saves parameters and optimizer state into the folder, a file each, or all in `filename`.

    `executor` has no meaning here: values are those of the global scope.

    >>> import os, tempfile
    >>> exe, folder = paddle.fluid.Executor(paddle.CPUPlace()), tempfile.mkdtemp()
    >>> loss = paddle.fluid.layers.fc(paddle.fluid.data("x", [None, 2]), 1)
    >>> _ = exe.run(paddle.fluid.default_startup_program())
    >>> paddle.fluid.io.save_persistables(exe, folder)
    >>> sorted(os.listdir(folder))
    ['fc_0.b_0', 'fc_0.w_0']
    """
    save_vars(executor, dirname, main_program, None, is_persistable, filename)


def load_persistables(
    executor: Any,
    dirname: str,
    main_program: Program | None = None,
    filename: str | None = None,
) -> None:
    """Loads what `save_persistables` wrote.

    >>> import tempfile
    >>> exe, folder = paddle.fluid.Executor(paddle.CPUPlace()), tempfile.mkdtemp()
    >>> loss = paddle.fluid.layers.fc(paddle.fluid.data("x", [None, 2]), 1)
    >>> _ = exe.run(paddle.fluid.default_startup_program())
    >>> paddle.fluid.io.save_persistables(exe, folder)
    >>> with paddle.fluid.scope_guard(paddle.fluid.core.Scope()):
    ...     paddle.fluid.io.load_persistables(exe, folder)
    ...     paddle.fluid.global_scope().find_var("fc_0.b_0").get_tensor().shape()
    [1]
    """
    load_vars(executor, dirname, main_program, None, is_persistable, filename)


def save_params(
    executor: Any,
    dirname: str,
    main_program: Program | None = None,
    filename: str | None = None,
) -> None:
    """Saves parameters only, see `save_persistables`.

    >>> import os, tempfile
    >>> exe, folder = paddle.fluid.Executor(paddle.CPUPlace()), tempfile.mkdtemp()
    >>> loss = paddle.fluid.layers.fc(paddle.fluid.data("x", [None, 2]), 1)
    >>> _ = exe.run(paddle.fluid.default_startup_program())
    >>> paddle.fluid.io.save_params(exe, folder)
    >>> sorted(os.listdir(folder))
    ['fc_0.b_0', 'fc_0.w_0']
    """
    save_vars(executor, dirname, main_program, None, is_parameter, filename)


def load_params(
    executor: Any,
    dirname: str,
    main_program: Program | None = None,
    filename: str | None = None,
) -> None:
    """Loads what `save_params` wrote.

    >>> import tempfile
    >>> exe, folder = paddle.fluid.Executor(paddle.CPUPlace()), tempfile.mkdtemp()
    >>> loss = paddle.fluid.layers.fc(paddle.fluid.data("x", [None, 2]), 1)
    >>> _ = exe.run(paddle.fluid.default_startup_program())
    >>> paddle.fluid.io.save_params(exe, folder)
    >>> with paddle.fluid.scope_guard(paddle.fluid.core.Scope()):
    ...     paddle.fluid.io.load_params(exe, folder)
    ...     paddle.fluid.global_scope().find_var("fc_0.b_0").get_tensor().shape()
    [1]
    """
    load_vars(executor, dirname, main_program, None, is_parameter, filename)


def get_program_parameter(program: Program) -> list[Variable]:
    """The parameters of a program.

    >>> paddle.fluid.io.get_program_parameter(paddle.fluid.Program())
    []
    """
    return [var for var in program.list_vars() if is_parameter(var)]


def get_program_persistable_vars(program: Program) -> list[Variable]:
    """The variables of a program that outlive a run.

    >>> paddle.fluid.io.get_program_persistable_vars(paddle.fluid.Program())
    []
    """
    return [var for var in program.list_vars() if is_persistable(var)]


def save_inference_model(
    dirname: str,
    feeded_var_names: Sequence[str],
    target_vars: Sequence[Variable],
    executor: Any,
    main_program: Program | None = None,
    model_filename: str | None = None,
    params_filename: str | None = None,
    export_for_deployment: bool = True,
    program_only: bool = False,
) -> list[str]:
    """Saves what computes `target_vars`: the program as `__model__`, parameters a file each.

    Returns the names of the targets. The program is always cut for prediction:
    `export_for_deployment=False` warns.

    >>> import os, tempfile
    >>> x = paddle.fluid.layers.data("x", [3])
    >>> y = paddle.fluid.layers.relu(x)
    >>> folder = tempfile.mkdtemp()
    >>> names = paddle.fluid.io.save_inference_model(folder, ["x"], [y], None)
    >>> os.listdir(folder)
    ['__model__']
    """
    if program_only:
        raise NotImplementedError("`program_only` is not in this version")
    check_export(export_for_deployment)
    program = main_program or default_main_program()
    feeds = [feeded_var_names] if isinstance(feeded_var_names, str) else list(feeded_var_names)
    targets = fetch_names(target_vars)
    _core.save_inference(
        global_scope(),
        program,
        feeds,
        targets,
        dirname,
        "dir",
        model_filename=model_filename,
        params_filename=params_filename,
    )
    return targets


def check_export(export_for_deployment: bool) -> None:
    """Warns of a wish that is not fulfilled: the uncut program for training on.

    >>> check_export(True) is None
    True
    """
    if not export_for_deployment:
        warnings.warn(
            "`export_for_deployment=False` has no effect: the program is cut for prediction; to train"
            " on, save parameters by `save_persistables` and build the program again",
            stacklevel=3,
        )


def load_inference_model(
    dirname: str,
    executor: Any,
    model_filename: str | None = None,
    params_filename: str | None = None,
    pserver_endpoints: Sequence[str] | None = None,
) -> list[Any]:
    """Loads a model; returns its program, the names to feed, and the variables to fetch.

    `executor` has no meaning here.

    >>> import tempfile
    >>> x = paddle.fluid.layers.data("x", [3])
    >>> folder = tempfile.mkdtemp()
    >>> names = paddle.fluid.io.save_inference_model(
    ...     folder, ["x"], [paddle.fluid.layers.relu(x)], None
    ... )
    >>> program, feeds, targets = paddle.fluid.io.load_inference_model(folder, None)
    >>> feeds
    ['x']
    """
    if pserver_endpoints is not None:
        raise NotImplementedError("loading from parameter servers is not in this version")
    program, feeds, targets = load_model(dirname, model_filename, params_filename)
    block = program.global_block()
    return [program, list(feeds), [block.var(name) for name in targets]]


__getattr__ = missing_names(__name__)
