"""`save` and `load`: Paddle's files of parameters, optimizer states and other data.

The files are Paddle's: what one of the two writes, the other reads. A save appears whole or not at
all; a load never runs code from the file (see `pickles`).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

from .. import _core
from .._missing import missing_names
from . import pickles

__all__ = ["load", "save"]

# Paddle's keys for what a dict holds besides its tensors.
NAME_TABLE = "StructuredToParameterName@@"
SLICES = "UnpackBigParamInfor@@"

# Before protocol 4 a pickle cannot hold more than 4 GiB in one piece; Paddle cuts at one.
MAX_SLICE_BYTES = 2**30 - 1


def save(
    obj: Any, path: str | os.PathLike[str] | BinaryIO, protocol: int = 4, **configs: Any
) -> None:
    """Saves a state dict, a tensor, a program, or containers of them, to a file or `BytesIO`.

    `use_binary_format=True` writes a single tensor in Paddle's binary form.

    >>> import bireme as paddle, io
    >>> buffer = io.BytesIO()
    >>> paddle.save({"w": paddle.to_tensor([1.0, 2.0])}, buffer)
    >>> start = buffer.seek(0)
    >>> paddle.load(buffer)["w"].tolist()
    [1.0, 2.0]
    """
    binary, protocol = _save_options(protocol, configs)
    if isinstance(obj, _core.Program):
        content = obj.serialize()
        _write(path, lambda file: file.write(content))
    elif binary:
        _save_binary(obj, path)
    else:
        value = _state_dict_as_stored(obj, protocol) if _is_state_dict(obj) else obj
        _write(path, lambda file: pickles.dump(value, file, protocol, _reduce))


def load(
    path: str | os.PathLike[str] | BinaryIO, return_numpy: bool = False, **configs: Any
) -> Any:
    """Loads what `save` has saved, here or in Paddle; tensors as numpy arrays on request.

    Also loads the parameters of a model saved by `jit.save` or `static.save_inference_model`, by
    the prefix of its files. `keep_name_table=True` keeps the table of parameter names of a state
    dict.

    >>> import bireme as paddle, io
    >>> buffer = io.BytesIO()
    >>> paddle.save([paddle.to_tensor([1]), "text"], buffer)
    >>> start = buffer.seek(0)
    >>> paddle.load(buffer, return_numpy=True)
    [array([1]), 'text']
    """
    keep_names = configs.pop("keep_name_table", False)
    if configs:
        raise ValueError(f"`load` does not take `{next(iter(configs))}`")
    as_tensor = _as_array if return_numpy else _as_tensor
    if hasattr(path, "read"):
        return _load_pickle(path, "the buffer", as_tensor, keep_names)
    path = os.fspath(path)
    if not os.path.isfile(path):
        return _load_model_parameters(path, return_numpy)
    with open(path, "rb") as file:
        first = file.read(1)
        file.seek(0)
        # Pickles since protocol 2 say so in the first byte, which is 0 in tensors.
        if first == b"\x80":
            return _load_pickle(file, path, as_tensor, keep_names)
        if first == b"\0":
            return as_tensor(_core.load_tensor(path))
        try:
            return _core.Program.parse_from_string(file.read())
        except _core.InvalidArgumentError as error:
            raise ValueError(
                f"`{path}` is none of what `load` reads: a pickle of `save`, a tensor or a program"
            ) from error


def _save_options(protocol: int, configs: dict[str, Any]) -> tuple[bool, int]:
    binary = configs.pop("use_binary_format", False)
    # The older name of the argument.
    protocol = configs.pop("pickle_protocol", None) or protocol
    if configs:
        raise ValueError(f"`save` does not take `{next(iter(configs))}`")
    if isinstance(protocol, bool) or not isinstance(protocol, int) or not 2 <= protocol <= 4:
        raise ValueError(f"`protocol` must be 2, 3 or 4, not {protocol!r}")
    return bool(binary), protocol


def _write(path: Any, write: Callable[[BinaryIO], Any]) -> None:
    """Writes aside and renames: who reads the path sees the old file or the new one."""
    if hasattr(path, "write"):
        write(path)
        return
    path = os.fspath(path)
    folder, name = os.path.split(path)
    if not name:
        raise ValueError(f"`{path}` is a folder: the path must end with the name of a file")
    os.makedirs(folder or ".", exist_ok=True)
    aside = os.path.join(folder, f".{name}.{os.getpid()}.new")
    try:
        with open(aside, "wb") as file:
            write(file)
        os.replace(aside, path)
    except BaseException:
        if os.path.exists(aside):
            os.remove(aside)
        raise


def _save_binary(obj: Any, path: Any) -> None:
    if not isinstance(obj, (_core.Tensor, _core.LoDTensor)):
        raise TypeError(f"`use_binary_format` saves one tensor, not {type(obj).__name__}")
    if hasattr(path, "write"):
        raise ValueError("`use_binary_format` writes to files only, not to buffers")
    os.makedirs(os.path.dirname(os.fspath(path)) or ".", exist_ok=True)
    _core.save_tensor(os.fspath(path), obj)


def _is_state_dict(obj: Any) -> bool:
    """Paddle's own rule: tensors, and dicts without any (the state of a schedule)."""
    if not isinstance(obj, dict):
        return False
    for value in obj.values():
        if isinstance(value, dict):
            if any(_holds_tensor(inner) for inner in value.values()):
                return False
        elif not isinstance(value, (_core.Tensor, _core.LoDTensor)):
            return False
    return True


def _holds_tensor(obj: Any) -> bool:
    if isinstance(obj, dict):
        return any(map(_holds_tensor, obj.values()))
    if isinstance(obj, (list, tuple)):
        return any(map(_holds_tensor, obj))
    return isinstance(obj, (_core.Tensor, _core.LoDTensor))


def _state_dict_as_stored(state: dict[str, Any], protocol: int) -> dict[str, Any]:
    names = {key: value.name for key, value in state.items() if isinstance(value, _core.Tensor)}
    is_tensor = (_core.Tensor, _core.LoDTensor)
    stored = {k: np.array(v) if isinstance(v, is_tensor) else v for k, v in state.items()}
    # Static mode has no structured names, and Paddle writes no table then; there an optimizer
    # without a state is nothing to warn of.
    if _core.in_dynamic_mode():
        stored[NAME_TABLE] = names
        if not state:
            warnings.warn("the state dict that is saved is empty", stacklevel=3)
    return stored if protocol >= 4 else _cut_large_arrays(stored)


def _cut_large_arrays(stored: dict[str, Any]) -> dict[str, Any]:
    slices: dict[str, Any] = {}
    for key, value in list(stored.items()):
        if not isinstance(value, np.ndarray) or value.nbytes <= MAX_SLICE_BYTES:
            continue
        length = MAX_SLICE_BYTES // value.itemsize
        flat = stored.pop(key).reshape(-1)
        parts = {
            f"{key}@@.{i}": flat[i * length :][:length] for i in range(-(-len(flat) // length))
        }
        slices[key] = {"OriginShape": value.shape, "slices": list(parts)}
        stored.update(parts)
    if slices:
        stored[SLICES] = slices
    return stored


def _reduce(obj: Any) -> Any:
    """How `pickle` writes our objects: as Paddle does."""
    if isinstance(obj, _core.Tensor):
        return tuple, ((obj.name, np.array(obj)),)
    if isinstance(obj, _core.LoDTensor):
        return np.array(obj).__reduce__()
    # Layers are known by what they can do: importing them here would be slow for nothing.
    if hasattr(obj, "state_dict") and hasattr(obj, "sublayers"):
        raise ValueError("`save` does not save layers: save their `state_dict()`")
    if isinstance(obj, (_core.Variable, _core.Scope)):
        raise TypeError(f"`save` cannot save a {type(obj).__name__}: save its value")
    return NotImplemented


def _load_pickle(file: Any, where: str, as_tensor: Callable[..., Any], keep_names: bool) -> Any:
    import pickle

    damage = (
        pickle.UnpicklingError,
        ArithmeticError,
        AttributeError,
        EOFError,
        LookupError,
        TypeError,
        ValueError,
    )
    try:
        size = pickles.size_of(file)
        value = pickles.restore(file)
        if isinstance(value, dict) and SLICES in value:
            _join_slices(value)
        return _converted(value, as_tensor, keep_names, size)
    except pickles.UnsafePickleError as error:
        raise pickles.UnsafePickleError(f"cannot load {where}: {error}") from None
    except RecursionError:
        raise ValueError(f"{where} is nested too deeply, or holds itself") from None
    except damage as error:
        raise ValueError(f"{where} is damaged, or was not written by `save`: {error}") from error


def _converted(
    value: Any, as_tensor: Callable[..., Any], keep_names: bool, size: int | None
) -> Any:
    if not isinstance(value, dict) or NAME_TABLE not in value:
        return _Conversion(as_tensor, bare=not _holds_named(value), size=size).of(value)
    names = value[NAME_TABLE]
    named = _Conversion(as_tensor, bare=True, size=size)
    others = _Conversion(_as_array, bare=True, size=size)
    state = {}
    for key, item in value.items():
        name = names.get(key)
        if isinstance(item, pickles.StoredArray) and name is not None:
            state[key] = named.tensor(item.view, name)
        else:
            state[key] = others.of(item)
    return state if keep_names else {k: v for k, v in state.items() if k != NAME_TABLE}


def _holds_named(value: Any) -> bool:
    """Whether some tensor was written with its name; then bare arrays were arrays all along."""
    waiting, seen = [value], set()
    while waiting:
        value = waiting.pop()
        if _is_named(value):
            return True
        if isinstance(value, (dict, list, tuple)) and id(value) not in seen:
            seen.add(id(value))
            waiting.extend(value.values() if isinstance(value, dict) else value)
    return False


def _is_named(value: Any) -> bool:
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and isinstance(value[0], str)
        and isinstance(value[1], pickles.StoredArray)
    )


class _Conversion:
    """Puts tensors, or arrays, in the place of what the pickle held; `bare` ones only if said so.

    What the pickle held in several places is converted once: a few bytes could name it often.
    """

    def __init__(self, as_tensor: Callable[..., Any], bare: bool, size: int | None) -> None:
        self.as_tensor = as_tensor
        self.bare = bare
        self.done: dict[int, Any] = {}
        # A tensor for each name of an array; of one that has many names they would be too many.
        self.left = None if size is None else 16 * size + (1 << 20)

    def of(self, value: Any) -> Any:
        if not isinstance(value, (dict, list, tuple, pickles.StoredArray)):
            return value
        if id(value) not in self.done:
            self.done[id(value)] = self._convert(value)
        return self.done[id(value)]

    def tensor(self, view: np.ndarray, name: str) -> Any:
        if self.left is not None:
            self.left -= view.nbytes
            if self.left < 0:
                raise pickles.UnsafePickleError("it has the same array under too many names")
        return self.as_tensor(view, name)

    def _convert(self, value: Any) -> Any:
        if _is_named(value):
            return self.tensor(value[1].view, value[0])
        if isinstance(value, pickles.StoredArray):
            return self.as_tensor(value.view) if self.bare else _as_array(value.view)
        if isinstance(value, dict):
            return type(value)((k, self.of(v)) for k, v in value.items())
        return type(value)(self.of(item) for item in value)


def _join_slices(stored: dict[str, Any]) -> None:
    for key, cut in stored.pop(SLICES).items():
        parts = [stored.pop(part).view for part in cut["slices"]]
        whole = stored[key] = pickles.StoredArray()
        whole.view = np.concatenate(parts).reshape(cut["OriginShape"])


def _as_array(value: Any, name: str | None = None) -> np.ndarray:
    return np.array(value)


def _as_tensor(value: np.ndarray, name: str | None = None) -> Any:
    if not _core.in_dynamic_mode():
        stored = _core.LoDTensor()
        stored.set(value, _core.CPUPlace())
        return stored
    tensor = _core.to_tensor(value)
    if name:
        tensor.name = name
    return tensor


def _load_model_parameters(path: str, return_numpy: bool) -> dict[str, Any]:
    """The parameters of a saved model, by the prefix of its files or by its folder."""
    if not (os.path.isfile(f"{path}.pdmodel") or os.path.isfile(os.path.join(path, "__model__"))):
        what = "a folder without a model" if os.path.isdir(path) else "no such file"
        raise FileNotFoundError(
            f"there is nothing to load at `{path}`: {what}, and no model with this prefix"
        )
    scope = _core.Scope()
    program, _, _ = _core.load_inference(scope, path)
    names = [var.name for var in program.list_vars() if var.persistable]
    found = {n: scope.find_var(n) for n in names if n not in ("feed", "fetch")}
    convert = _as_array if return_numpy else _as_tensor
    return {n: convert(np.array(var.get_tensor()), n) for n, var in found.items() if var}


__getattr__ = missing_names(__name__)
