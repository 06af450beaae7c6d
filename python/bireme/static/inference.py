"""Models for prediction: a program cut down to what it predicts, with its parameters."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from .. import _core
from .._names import set_public_names
from .executor import fetch_names
from .io import load_from_file, save_to_file
from .program import Program, Variable, default_main_program, global_scope


def save_inference_model(
    path_prefix: str,
    feed_vars: Variable | Sequence[Variable],
    fetch_vars: Variable | Sequence[Variable],
    executor: Any,
    *,
    program: Program | None = None,
    clip_extra: bool = True,
    legacy_format: bool = False,
) -> None:
    """Saves what computes `fetch_vars` from `feed_vars` as `path_prefix` + .pdmodel, .pdiparams.

    `executor` and `clip_extra` have no meaning here: values are in the global scope, and programs
    hold no extra attributes.

    >>> import bireme as paddle, tempfile, os
    >>> paddle.enable_static()
    >>> main, startup = paddle.static.Program(), paddle.static.Program()
    >>> with paddle.static.program_guard(main, startup):
    ...     x = paddle.static.data("x", [None, 3])
    ...     y = paddle.static.nn.fc(x, 1)
    >>> exe = paddle.static.Executor()
    >>> _ = exe.run(startup)
    >>> prefix = os.path.join(tempfile.mkdtemp(), "model")
    >>> paddle.static.save_inference_model(prefix, [x], [y], exe, program=main)
    >>> paddle.static.load_inference_model(prefix, exe)[1]
    ['x']
    >>> paddle.disable_static()
    """
    if legacy_format:
        raise NotImplementedError("`legacy_format` is not in this version: see `fluid.io`")
    program = program or _program_of(fetch_vars)
    feeds, fetches = fetch_names(feed_vars), fetch_names(fetch_vars)
    os.makedirs(os.path.dirname(path_prefix) or ".", exist_ok=True)
    _core.save_inference(global_scope(), program, feeds, fetches, path_prefix, "prefix")


def load_inference_model(
    path_prefix: str | None,
    executor: Any,
    *,
    model_filename: str | bytes | None = None,
    params_filename: str | bytes | None = None,
) -> list[Any]:
    """Loads a model; returns its program, the names to feed, and the variables to fetch.

    `path_prefix` is the common start of the two files, or a folder of Paddle 1.x. With
    `path_prefix=None`, the file names are the contents of the two files themselves.

    >>> import bireme as paddle
    >>> paddle.static.load_inference_model("nowhere", None)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    bireme...FileError: ...
    """
    if path_prefix is None:
        program, feeds, fetches = _load_contents(model_filename, params_filename)
    else:
        program, feeds, fetches = load_model(path_prefix, model_filename, params_filename)
    block = program.global_block()
    return [program, list(feeds), [block.var(name) for name in fetches]]


def _load_contents(model: Any, parameters: Any) -> tuple[Any, ...]:
    import tempfile

    if not isinstance(model, bytes) or not isinstance(parameters, bytes | None):
        raise TypeError(
            "without `path_prefix`, `model_filename` and `params_filename` must be the contents of "
            "the two files, as `serialize_program` and `serialize_persistables` give them"
        )
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "model")
        save_to_file(prefix + ".pdmodel", model)
        if parameters:
            save_to_file(prefix + ".pdiparams", parameters)
        return load_model(prefix, None, None)


def load_model(path: str, model_filename: Any, params_filename: Any) -> tuple[Any, ...]:
    """The program, feeds and fetches of a model in either layout, under any file names."""
    if model_filename is None and params_filename is None:
        return _core.load_inference(global_scope(), path)
    return _core.load_inference(
        global_scope(), path, model_filename=model_filename, params_filename=params_filename
    )


def normalize_program(
    program: Program,
    feed_vars: Variable | Sequence[Variable],
    fetch_vars: Variable | Sequence[Variable],
    **kwargs: Any,
) -> Program:
    """A copy of `program` with only the ops that compute `fetch_vars` from `feed_vars`.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> main = paddle.static.Program()
    >>> with paddle.static.program_guard(main):
    ...     x = paddle.static.data("x", [None, 3])
    ...     y, unused = paddle.exp(x), paddle.sin(x)
    >>> [op.type for op in paddle.static.normalize_program(main, [x], [y]).global_block().ops]
    ['exp']
    >>> paddle.disable_static()
    """
    if set(kwargs) - {"skip_prune_program"} or kwargs.get("skip_prune_program"):
        raise NotImplementedError("`normalize_program` always prunes in this version")
    return program.clone(for_test=True).prune_with_input(
        fetch_names(feed_vars), fetch_names(fetch_vars)
    )


def serialize_program(
    feed_vars: Variable | Sequence[Variable],
    fetch_vars: Variable | Sequence[Variable],
    *,
    program: Program | None = None,
) -> bytes:
    """The bytes of the .pdmodel file that `save_inference_model` would write.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program()):
    ...     x = paddle.static.data("x", [None, 3])
    ...     content = paddle.static.serialize_program([x], [paddle.exp(x)])
    >>> paddle.static.deserialize_program(content).global_block().has_var("x")
    True
    >>> paddle.disable_static()
    """
    return _saved(feed_vars, fetch_vars, program, ".pdmodel")


def serialize_persistables(
    feed_vars: Variable | Sequence[Variable],
    fetch_vars: Variable | Sequence[Variable],
    executor: Any,
    *,
    program: Program | None = None,
) -> bytes:
    """The bytes of the .pdiparams file that `save_inference_model` would write.

    `executor` has no meaning here: values come from the global scope.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program()):
    ...     x = paddle.static.data("x", [None, 3])
    ...     paddle.static.serialize_persistables([x], [paddle.exp(x)], None)
    b''
    >>> paddle.disable_static()
    """
    return _saved(feed_vars, fetch_vars, program, ".pdiparams")


def deserialize_program(data: bytes) -> Program:
    """The program of a .pdmodel file.

    >>> import bireme as paddle
    >>> program = paddle.static.Program()
    >>> len(paddle.static.deserialize_program(program.serialize()).global_block().ops)
    0
    """
    return Program.parse_from_string(data)


def deserialize_persistables(program: Program, data: bytes, executor: Any) -> None:
    """Puts the parameters of a .pdiparams file into the global scope.

    `executor` has no meaning here.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> x = paddle.static.data("x", [None, 2])
    >>> y = paddle.static.nn.fc(x, 3)
    >>> executor = paddle.static.Executor()
    >>> _ = executor.run(paddle.static.default_startup_program())
    >>> saved = paddle.static.serialize_persistables([x], [y], executor)
    >>> program = paddle.static.default_main_program()
    >>> with paddle.static.scope_guard(paddle.static.Scope()):
    ...     paddle.static.deserialize_persistables(program, saved, executor)
    ...     paddle.static.global_scope().find_var("fc_0.w_0").get_tensor().shape()
    [2, 3]
    >>> paddle.disable_static()
    """
    import tempfile

    if not data:
        return
    with tempfile.TemporaryDirectory() as folder:
        save_to_file(os.path.join(folder, "parameters"), data)
        _core.load_persistables(global_scope(), program, folder, "parameters")


def _saved(feed_vars: Any, fetch_vars: Any, program: Program | None, suffix: str) -> bytes:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "model")
        save_inference_model(prefix, feed_vars, fetch_vars, None, program=program)
        # Without parameters there is no file for them, as Paddle does.
        return load_from_file(prefix + suffix) if os.path.exists(prefix + suffix) else b""


def _program_of(fetch_vars: Any) -> Program:
    first = fetch_vars[0] if isinstance(fetch_vars, (list, tuple)) and fetch_vars else fetch_vars
    block = getattr(first, "block", None)
    return default_main_program() if block is None else block.program


set_public_names(__name__, but="load_model")
