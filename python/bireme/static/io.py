"""Programs and their values to files and back, in Paddle's formats."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import _core
from .._names import set_public_names
from .program import Program, Variable, default_main_program, global_scope


def save(program: Program, model_path: str, protocol: int = 4, **configs: Any) -> None:
    """Saves parameters, optimizer state and program as `model_path` + .pdparams, .pdopt, .pdmodel.

    >>> import bireme as paddle, tempfile, os
    >>> folder = tempfile.mkdtemp()
    >>> paddle.static.save(paddle.static.Program(), os.path.join(folder, "model"))
    >>> sorted(os.listdir(folder))
    ['model.pdmodel', 'model.pdopt', 'model.pdparams']
    """
    from ..framework.io import save as pickle_save

    protocol = configs.pop("pickle_protocol", protocol)
    _refuse("static.save", configs)
    if not os.path.basename(model_path):
        raise ValueError(f"`model_path` is `{model_path}`, but must end in a name for the files")
    os.makedirs(os.path.dirname(model_path) or ".", exist_ok=True)
    with warnings.catch_warnings():
        # A program without parameters is no mistake, though an empty state dict may be one.
        warnings.simplefilter("ignore")
        pickle_save(_values(program, is_parameter), model_path + ".pdparams", protocol)
        pickle_save(_values(program, _is_state), model_path + ".pdopt", protocol)
    save_to_file(model_path + ".pdmodel", program.serialize())


def load(
    program: Program,
    model_path: str,
    executor: Any = None,
    var_list: Sequence[Variable] | None = None,
) -> None:
    """Sets the variables of `program` to what `save` (or `save_vars` into a folder) wrote.

    `executor` has no meaning here: values go into the global scope.

    >>> import bireme as paddle, tempfile, os
    >>> prefix = os.path.join(tempfile.mkdtemp(), "model")
    >>> paddle.static.save(paddle.static.Program(), prefix)
    >>> paddle.static.load(paddle.static.Program(), prefix) is None
    True
    """
    if os.path.isdir(model_path) or not os.path.exists(model_path + ".pdparams"):
        return _load_plain_files(program, model_path, var_list)
    state = load_program_state(model_path, var_list)
    wanted = [var.name for var in var_list or program.list_vars() if is_persistable(var)]
    missing = [name for name in wanted if name not in state]
    if missing and not os.path.exists(model_path + ".pdopt"):
        missing = [var.name for var in program.all_parameters() if var.name in missing]
    if missing:
        raise RuntimeError(f"`{model_path}` has no value for {', '.join(missing)}")
    set_program_state(program, {name: state[name] for name in wanted if name in state})


def load_program_state(
    model_path: str, var_list: Sequence[Variable] | None = None
) -> dict[str, np.ndarray]:
    """What `save` wrote, as arrays by name.

    >>> import bireme as paddle, tempfile, os
    >>> prefix = os.path.join(tempfile.mkdtemp(), "model")
    >>> paddle.static.save(paddle.static.Program(), prefix)
    >>> paddle.static.load_program_state(prefix)
    {}
    """
    from ..framework.io import load as pickle_load

    prefix = model_path.removesuffix(".pdparams").removesuffix(".pdopt").removesuffix(".pdmodel")
    if not os.path.exists(prefix + ".pdparams"):
        raise FileNotFoundError(
            f"there is no `{prefix}.pdparams`: was it saved with `static.save`?"
        )
    state = pickle_load(prefix + ".pdparams", return_numpy=True)
    if os.path.exists(prefix + ".pdopt"):
        state.update(pickle_load(prefix + ".pdopt", return_numpy=True))
    state.pop("StructuredToParameterName@@", None)
    if var_list is not None:
        wanted = {var.name for var in var_list}
        state = {name: value for name, value in state.items() if name in wanted}
    return state


def set_program_state(program: Program, state_dict: Mapping[str, Any]) -> None:
    """Sets the variables of `program` that `state_dict` names; a wrong shape raises.

    >>> import bireme as paddle, numpy as np
    >>> paddle.enable_static()
    >>> y = paddle.static.nn.fc(paddle.static.data("x", [None, 2]), 1)
    >>> program = paddle.static.default_main_program()
    >>> paddle.static.set_program_state(program, {"fc_0.b_0": np.ones([1], "float32")})
    >>> np.array(paddle.static.global_scope().find_var("fc_0.b_0").get_tensor()).tolist()
    [1.0]
    >>> paddle.disable_static()
    """
    scope = global_scope()
    for var in program.list_vars():
        if not is_persistable(var) or var.name not in state_dict:
            continue
        value = np.asarray(state_dict[var.name])
        if value.size == 1 and tuple(var.shape) in ((), (1,)):
            # Paddle's versions differ in whether one number has a dimension.
            value = value.reshape(var.shape)
        if tuple(value.shape) != tuple(var.shape):
            shapes = f"{tuple(value.shape)} for shape {tuple(var.shape)}"
            raise RuntimeError(f"`{var.name}` cannot take a value of shape {shapes}")
        if value.dtype.name != var.dtype.name:
            kinds = f"{value.dtype.name} for {var.dtype.name}"
            raise RuntimeError(f"`{var.name}` cannot take a value of type {kinds}")
        scope.var(var.name).get_tensor().set(value, None)


def save_vars(
    executor: Any,
    dirname: str,
    main_program: Program | None = None,
    vars: Sequence[Variable | str] | None = None,
    predicate: Callable[[Variable], bool] | None = None,
    filename: str | None = None,
) -> None:
    """Saves variables into the folder, a file each, or all in `filename`.

    Without `vars` those of which `predicate` is true. `executor` has no meaning here.

    >>> import bireme as paddle, os, tempfile
    >>> paddle.enable_static()
    >>> y = paddle.static.nn.fc(paddle.static.data("x", [None, 2]), 1)
    >>> _ = paddle.static.Executor().run(paddle.static.default_startup_program())
    >>> folder = tempfile.mkdtemp()
    >>> paddle.static.save_vars(None, folder, vars=["fc_0.b_0"])
    >>> os.listdir(folder)
    ['fc_0.b_0']
    >>> paddle.disable_static()
    """
    program = main_program or default_main_program()
    names = _chosen(program, vars, predicate)
    if names:
        _core.save_persistables(global_scope(), program, dirname, filename, set(names))


def load_vars(
    executor: Any,
    dirname: str,
    main_program: Program | None = None,
    vars: Sequence[Variable | str] | None = None,
    predicate: Callable[[Variable], bool] | None = None,
    filename: str | None = None,
) -> None:
    """Loads variables from what `save_vars` wrote; `executor` has no meaning here.

    Also from a checkpoint of parameter servers (`fleet.save_persistables`): parameters must be in
    it, and what only trainers keep (counters, a learning rate) stays as it is.

    >>> import bireme as paddle, tempfile
    >>> paddle.enable_static()
    >>> y = paddle.static.nn.fc(paddle.static.data("x", [None, 2]), 1)
    >>> _ = paddle.static.Executor().run(paddle.static.default_startup_program())
    >>> folder = tempfile.mkdtemp()
    >>> paddle.static.save_vars(None, folder, vars=["fc_0.b_0"])
    >>> with paddle.static.scope_guard(paddle.static.Scope()):
    ...     paddle.static.load_vars(None, folder, vars=["fc_0.b_0"])
    ...     paddle.static.global_scope().find_var("fc_0.b_0").get_tensor().shape()
    [1]
    >>> paddle.disable_static()
    """
    program = main_program or default_main_program()
    names = _chosen(program, vars, predicate)
    if names and filename is None and os.path.isfile(os.path.join(dirname, "manifest.json")):
        _load_checkpoint(program, dirname, names)
    elif names:
        _core.load_persistables(global_scope(), program, dirname, filename, set(names))


def _load_checkpoint(program: Program, dirname: str, names: Sequence[str]) -> None:
    found = _core.load_checkpoint(global_scope(), program, dirname, set(names))
    parameters = {parameter.name for parameter in program.all_parameters()}
    missing = [name for name in names if name in parameters and name not in found]
    if missing:
        raise RuntimeError(
            f"`{dirname}` is a checkpoint of parameter servers, and has no {', '.join(missing)}: is"
            " it that of another program?"
        )


def is_persistable(var: Variable) -> bool:
    """Whether the variable outlives a run.

    >>> import bireme as paddle
    >>> from bireme.static.io import is_persistable
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program()):
    ...     is_persistable(paddle.static.data("x", [1]))
    False
    >>> paddle.disable_static()
    """
    return bool(var.persistable) and var.name not in ("feed", "fetch")


def is_parameter(var: Variable) -> bool:
    """Whether the variable is a parameter.

    >>> import bireme as paddle
    >>> from bireme.static.io import is_parameter
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program()):
    ...     is_parameter(paddle.static.data("x", [1]))
    False
    >>> paddle.disable_static()
    """
    return bool(var.is_parameter)


def save_to_file(path: str, content: bytes) -> None:
    """Writes bytes to a file.

    >>> import bireme as paddle, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "file")
    >>> paddle.static.save_to_file(path, b"text")
    >>> paddle.static.load_from_file(path)
    b'text'
    """
    if not isinstance(content, bytes):
        raise TypeError(f"`content` must be bytes, not {type(content).__name__}")
    with open(path, "wb") as file:
        file.write(content)


def load_from_file(path: str) -> bytes:
    """The bytes of a file.

    >>> import bireme as paddle, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "file")
    >>> paddle.static.save_to_file(path, b"text")
    >>> paddle.static.load_from_file(path)
    b'text'
    """
    with open(path, "rb") as file:
        return file.read()


def _is_state(var: Variable) -> bool:
    # Paddle counts every persistable that is no parameter as the optimizer's.
    return is_persistable(var) and not var.is_parameter


def _values(program: Program, chosen: Callable[[Variable], bool]) -> dict[str, np.ndarray]:
    scope = global_scope()
    values = {}
    for var in filter(chosen, program.list_vars()):
        held = scope.find_var(var.name)
        if held is None:
            raise RuntimeError(f"`{var.name}` has no value yet: run the startup program first")
        values[var.name] = np.array(held.get_tensor())
    return values


def _chosen(program: Program, vars: Any, predicate: Any) -> list[str]:
    if vars is not None:
        return [var if isinstance(var, str) else var.name for var in vars]
    if predicate is None:
        raise ValueError("give either `vars` or a `predicate` that chooses them")
    return [var.name for var in program.list_vars() if predicate(var)]


def _load_plain_files(program: Program, path: str, var_list: Any) -> None:
    if os.path.isdir(path):
        return load_vars(None, path, program, var_list, is_persistable)
    if os.path.isfile(path) and var_list is not None:
        folder, name = os.path.split(path)
        return load_vars(None, folder or ".", program, var_list, None, name)
    raise FileNotFoundError(
        f"there is no `{path}.pdparams`, and `{path}` is no folder of variables"
    )


def _refuse(function: str, configs: Mapping[str, Any]) -> None:
    if configs:
        raise TypeError(f"`{function}` does not take {', '.join(sorted(configs))}")


set_public_names(__name__, but="is_parameter is_persistable")
