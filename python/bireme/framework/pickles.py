"""Paddle's pickles, written so that any NumPy reads them, and read without running their code.

A pickle is a program. Ours may build containers, numbers, strings and arrays; whatever else it
asks for by name is refused. Arrays and element types are stand-ins while the pickle runs, so that
not even their internals can be set to something that NumPy would trust.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

__all__ = ["StoredArray", "UnsafePickleError", "dump", "restore"]

# What a pickle may build by calling it: plain containers, which hold only what it brings along.
_CONTAINERS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        bool,
        bytearray,
        bytes,
        complex,
        dict,
        float,
        frozenset,
        int,
        list,
        set,
        str,
        tuple,
    )
}


class UnsafePickleError(pickle.UnpicklingError):
    """A pickle asked for something that data does not need."""


def dump(value: Any, file: BinaryIO, protocol: int, reduce: Callable[[Any], Any]) -> None:
    """Writes a pickle; `reduce` says how the objects are written that it knows."""
    _Writer(file, protocol, reduce).dump(value)


def restore(file: BinaryIO) -> Any:
    """Reads a pickle; arrays come as `StoredArray`.

    >>> import io, pickle
    >>> from bireme.framework.pickles import restore
    >>> restore(io.BytesIO(pickle.dumps({"a": [1, 2.5]})))
    {'a': [1, 2.5]}
    >>> restore(io.BytesIO(pickle.dumps(print)))
    Traceback (most recent call last):
    ...
    bireme.framework.pickles.UnsafePickleError: the pickle asks for `builtins.print`, ...
    """
    # Files of Python 2 hold bytes as text.
    return _Reader(file, encoding="latin1").load()


class StoredArray:
    """An array of a pickle; `view` shares the memory of the file's bytes and cannot be written."""

    __slots__ = ("view",)

    def __setstate__(self, state: Any) -> None:
        _version, shape, dtype, is_fortran, data = state
        if not isinstance(dtype, _StoredDType):
            raise UnsafePickleError("an array of the pickle has no element type")
        data = data.encode("latin1") if isinstance(data, str) else data
        if not isinstance(data, (bytes, bytearray)):
            raise UnsafePickleError("an array of the pickle does not hold plain numbers")
        flat = np.frombuffer(data, dtype.dtype)
        self.view = flat.reshape(shape, order="F" if is_fortran else "C")


class _StoredDType:
    """An element type of a pickle: a number or text, of which only the byte order may be set."""

    __slots__ = ("dtype",)

    def __init__(self, spec: Any) -> None:
        self.dtype = np.dtype(spec) if isinstance(spec, str) else None
        if self.dtype is None or self.dtype.hasobject or self.dtype.kind not in "biufcSU":
            raise UnsafePickleError(f"the pickle has arrays of {spec!r}, but only numbers are read")

    def __setstate__(self, state: Any) -> None:
        if len(state) > 1 and state[1] in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(state[1])


class _Builder:
    """Something the pickle may call. Without a `__dict__`, so that it cannot be changed."""

    __slots__ = ("_build",)

    def __init__(self, build: Callable[..., Any]) -> None:
        self._build = build

    def __call__(self, *arguments: Any) -> Any:
        return self._build(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise UnsafePickleError("the pickle tries to change a function")


def _empty_array(*_arguments: Any) -> StoredArray:
    return StoredArray()


def _from_buffer(buffer: Any, dtype: Any, shape: Any, order: str, *_axes: Any) -> StoredArray:
    array = StoredArray()
    array.__setstate__((1, shape, dtype, order == "F", bytes(buffer)))
    return array


def _dtype(spec: Any, *_flags: Any) -> _StoredDType:
    return _StoredDType(spec)


def _scalar(dtype: Any, data: Any) -> Any:
    array = StoredArray()
    array.__setstate__((1, (), dtype, False, data))
    return array.view[()]


def _encode(text: str, encoding: str = "latin1") -> bytes:
    if encoding != "latin1":
        raise UnsafePickleError(f"the pickle encodes text as {encoding!r}, but only latin1 is read")
    return text.encode("latin1")


def _evaluate(expression: Any, names: Any) -> Any:
    # Paddle writes a LoDTensor as `eval("data", {"data": array})`, and nothing else.
    if expression != "data" or not isinstance(names, dict):
        raise UnsafePickleError(f"the pickle asks to evaluate {expression!r}: it is not loaded")
    return names["data"]


_EVALUATE = _Builder(_evaluate)
_ALLOWED: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("_codecs", "encode"): _Builder(_encode),
    ("numpy", "ndarray"): None,
    ("numpy", "dtype"): _Builder(_dtype),
    **{
        (f"numpy.{core}.{place}", name): _Builder(build)
        for core in ("core", "_core")
        for place, name, build in (
            ("multiarray", "_reconstruct", _empty_array),
            ("multiarray", "scalar", _scalar),
            ("numeric", "_frombuffer", _from_buffer),
        )
    },
    **{
        (module, name): kind
        for module in ("builtins", "__builtin__")
        for name, kind in {**_CONTAINERS, "eval": _EVALUATE}.items()
    },
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise UnsafePickleError(
                f"the pickle asks for `{module}.{name}`, which data does not need: it is not "
                "loaded, because it could run code"
            ) from None

    def persistent_load(self, identity: Any) -> Any:
        raise UnsafePickleError("the pickle refers to an object outside of it: it is not loaded")


class _Writer(pickle._Pickler):  # type: ignore[misc,name-defined]
    """The pickler in Python: only there can the place that a function is found at be chosen."""

    def __init__(self, file: BinaryIO, protocol: int, reduce: Callable[[Any], Any]) -> None:
        super().__init__(file, protocol)
        self._reduce = reduce

    def reducer_override(self, value: Any) -> Any:
        return self._reduce(value)

    def save_global(self, obj: Any, name: str | None = None) -> None:
        module = getattr(obj, "__module__", None) or ""
        if not module.startswith("numpy._core."):
            return super().save_global(obj, name)
        # NumPy 2 has moved its functions, and still finds them where NumPy 1 looks for them.
        module, name = module.replace("numpy._core.", "numpy.core."), obj.__qualname__
        if self.proto >= 4:
            self.save(module)
            self.save(name)
            self.write(pickle.STACK_GLOBAL)
        else:
            self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
        self.memoize(obj)
