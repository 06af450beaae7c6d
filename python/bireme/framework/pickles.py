"""Paddle's pickles, written so that any NumPy reads them, and read without running their code.

A pickle is a program. Ours may build containers, numbers, strings and arrays; whatever else it
asks for by name is refused. Arrays and element types are stand-ins while the pickle runs, so that
not even their internals can be set to something that NumPy would trust.

A few bytes of a pickle can ask for much memory or time: sizes are compared with what the file
holds, calls that copy are counted, and what is hashed must be small. This is why the reader is
Python's own in Python: the one in C believes the numbers in a file.
"""

from __future__ import annotations

import io
import os
import pickle
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO, ClassVar

import numpy as np

__all__ = ["StoredArray", "UnsafePickleError", "dump", "restore", "size_of"]

# Values that one key of a dict, or one member of a set, may consist of.
_MOST_IN_A_KEY = 256


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
    if size_of(file) is None:
        file = io.BytesIO(file.read())
    # Files of Python 2 hold bytes as text.
    return _Reader(file, encoding="latin1").load()


def size_of(file: BinaryIO) -> int | None:
    """How many bytes are left to read; None where a file cannot tell.

    >>> import io
    >>> size_of(io.BytesIO(b"four"))
    4
    """
    try:
        here = file.tell()
        end = file.seek(0, os.SEEK_END)
        file.seek(here)
    except (AttributeError, OSError):
        return None
    return end - here


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
        dtype = np.dtype(spec) if isinstance(spec, str) else None
        if dtype is None or dtype.hasobject or dtype.kind not in "biufcSU":
            raise UnsafePickleError(f"the pickle has arrays of {spec!r}, but only numbers are read")
        self.dtype: np.dtype[Any] = dtype

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
    array.__setstate__((1, shape, dtype, order == "F", buffer))
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


def _scalar_of(kind: type) -> Callable[..., Any]:
    def build(*arguments: Any) -> Any:
        if not all(
            isinstance(argument, (bool, int, float, complex, str)) for argument in arguments
        ):
            raise UnsafePickleError(f"the pickle makes a `{kind.__name__}` of something large")
        return kind(*arguments)

    return build


def _bytes_of(kind: type) -> Callable[..., Any]:
    def build(*arguments: Any) -> Any:
        # A number would be a size, which nothing in the file answers for.
        if arguments and not isinstance(arguments[0], (bytes, bytearray, str, list, tuple)):
            raise UnsafePickleError(f"the pickle makes a `{kind.__name__}` of {arguments[0]!r}")
        return kind(*arguments)

    return build


def _container_of(kind: type) -> Callable[..., Any]:
    def build(*arguments: Any) -> Any:
        if len(arguments) > 1:
            raise UnsafePickleError(f"the pickle calls `{kind.__name__}` with several values")
        if kind in (set, frozenset):
            _check_keys(*arguments)
        elif kind in (dict, OrderedDict) and arguments and not isinstance(arguments[0], dict):
            _check_keys(pair[0] for pair in arguments[0])
        return kind(*arguments)

    return build


def _check_keys(keys: Iterable[Any] = ()) -> None:
    """That values are hashed in short time: a tuple may name another one over and over."""
    for key in keys:
        waiting, count = [key], 0
        while waiting:
            inner = waiting.pop()
            if isinstance(inner, tuple):
                waiting.extend(inner)
                count += len(inner)
            if count > _MOST_IN_A_KEY:
                raise UnsafePickleError("a key of the pickle is too large")


def _evaluate(expression: Any, names: Any) -> Any:
    # Paddle writes a LoDTensor as `eval("data", {"data": array})`, and nothing else.
    if expression != "data" or not isinstance(names, dict):
        raise UnsafePickleError(f"the pickle asks to evaluate {expression!r}: it is not loaded")
    return names["data"]


# What a pickle may build by calling it: plain values, which hold only what it brings along.
_PLAIN: dict[str, Any] = {
    **{kind.__name__: _scalar_of(kind) for kind in (bool, complex, float, int, str)},
    **{kind.__name__: _bytes_of(kind) for kind in (bytearray, bytes)},
    **{kind.__name__: _container_of(kind) for kind in (dict, frozenset, list, set, tuple)},
    "eval": _evaluate,
}
# No classes among them: of one, a pickle could make objects without calling it.
_ALLOWED: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): _Builder(_container_of(OrderedDict)),
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
        (module, name): _Builder(build)
        for module in ("builtins", "__builtin__")
        for name, build in _PLAIN.items()
    },
}


# Python's own in Python, which type checkers know nothing of.
_Pickler: Any = pickle._Pickler
_Unpickler: Any = pickle._Unpickler


class _Reader(_Unpickler):
    dispatch: ClassVar[dict[int, Any]] = dict(_Unpickler.dispatch)

    def __init__(self, file: BinaryIO, **options: Any) -> None:
        self._file = _Bounded(file)
        # What calls may copy in all: a pickle that builds an object names what is in it.
        self._copies = 16 * self._file.left + (1 << 20)
        super().__init__(self._file, **options)

    def _count(self, arguments: Any) -> None:
        for argument in arguments:
            if isinstance(argument, (bytes, bytearray, str, list, tuple, set, frozenset, dict)):
                self._copies -= len(argument)
        if self._copies < 0:
            raise UnsafePickleError("the pickle copies the same values again and again")

    def load_reduce(self) -> None:
        self._count(self.stack[-1])
        super().load_reduce()

    def _instantiate(self, klass: Any, arguments: Any) -> None:
        self._count(arguments)
        super()._instantiate(klass, arguments)

    def load_build(self) -> None:
        if isinstance(self.stack[-1], tuple):
            self._count(self.stack[-1])
        super().load_build()

    def load_bytearray8(self) -> None:
        (size,) = struct.unpack("<Q", self.read(8))
        # What is not in the file is not made room for.
        self.append(bytearray(self.read(size)))

    def load_setitem(self) -> None:
        _check_keys(self.stack[-2:-1])
        super().load_setitem()

    def load_setitems(self) -> None:
        _check_keys(self.stack[::2])
        super().load_setitems()

    def load_dict(self) -> None:
        _check_keys(self.stack[::2])
        super().load_dict()

    def load_additems(self) -> None:
        _check_keys(self.stack)
        super().load_additems()

    def load_frozenset(self) -> None:
        _check_keys(self.stack)
        super().load_frozenset()

    dispatch[pickle.REDUCE[0]] = load_reduce
    dispatch[pickle.BUILD[0]] = load_build
    dispatch[pickle.DICT[0]] = load_dict
    dispatch[pickle.BYTEARRAY8[0]] = load_bytearray8
    dispatch[pickle.SETITEM[0]] = load_setitem
    dispatch[pickle.SETITEMS[0]] = load_setitems
    dispatch[pickle.ADDITEMS[0]] = load_additems
    dispatch[pickle.FROZENSET[0]] = load_frozenset

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


class _Bounded:
    """A file that is not asked for more than it holds: memory is made ready before it is read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.left = size_of(file) or 0

    def read(self, size: int) -> bytes:
        if size > self.left:
            raise EOFError("it ends too early")
        self.left -= size
        return self._file.read(size)

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[:] = data
        return len(data)

    def readline(self) -> bytes:
        line = self._file.readline()
        self.left -= len(line)
        return line


class _Writer(_Pickler):
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
