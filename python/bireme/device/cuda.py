"""NVIDIA GPUs: there are none for this build, and every function says so."""

from __future__ import annotations

from typing import Any, NoReturn

from .. import _core
from .._missing import missing_names
from .._names import set_public_names


def device_count() -> int:
    """The number of GPUs that can be used.

    >>> import bireme as paddle
    >>> paddle.device.cuda.device_count()
    0
    """
    return 0


def empty_cache() -> None:
    """Gives cached GPU memory back; there is none.

    >>> import bireme as paddle
    >>> paddle.device.cuda.empty_cache() is None
    True
    """


def get_device_properties(device: Any = None) -> NoReturn:
    """The properties of a GPU: an error without one.

    >>> import bireme as paddle
    >>> paddle.device.cuda.get_device_properties()
    Traceback (most recent call last):
    ...
    bireme.UnavailableError: `get_device_properties`: this build of Bireme has no GPU support
    """
    _no_gpu("get_device_properties")


def get_device_name(device: Any = None) -> NoReturn:
    """The name of a GPU: an error without one.

    >>> import bireme as paddle
    >>> paddle.device.cuda.get_device_name()
    Traceback (most recent call last):
    ...
    bireme.UnavailableError: `get_device_name`: this build of Bireme has no GPU support
    """
    _no_gpu("get_device_name")


def get_device_capability(device: Any = None) -> NoReturn:
    """The compute capability of a GPU: an error without one.

    >>> import bireme as paddle
    >>> paddle.device.cuda.get_device_capability()
    Traceback (most recent call last):
    ...
    bireme.UnavailableError: `get_device_capability`: this build of Bireme has no GPU support
    """
    _no_gpu("get_device_capability")


def synchronize(device: Any = None) -> NoReturn:
    """Waits for a GPU: an error without one.

    >>> import bireme as paddle
    >>> paddle.device.cuda.synchronize()
    Traceback (most recent call last):
    ...
    bireme.UnavailableError: `synchronize`: this build of Bireme has no GPU support
    """
    _no_gpu("synchronize")


def memory_allocated(device: Any = None) -> NoReturn:
    """The memory of a GPU that tensors use: an error without one.

    >>> import bireme as paddle
    >>> paddle.device.cuda.memory_allocated()
    Traceback (most recent call last):
    ...
    bireme.UnavailableError: `memory_allocated`: this build of Bireme has no GPU support
    """
    _no_gpu("memory_allocated")


def memory_reserved(device: Any = None) -> NoReturn:
    """The memory of a GPU that the process holds: an error without one.

    >>> import bireme as paddle
    >>> paddle.device.cuda.memory_reserved()
    Traceback (most recent call last):
    ...
    bireme.UnavailableError: `memory_reserved`: this build of Bireme has no GPU support
    """
    _no_gpu("memory_reserved")


def max_memory_allocated(device: Any = None) -> NoReturn:
    """The most memory of a GPU that tensors have used: an error without one.

    >>> import bireme as paddle
    >>> paddle.device.cuda.max_memory_allocated()
    Traceback (most recent call last):
    ...
    bireme.UnavailableError: `max_memory_allocated`: this build of Bireme has no GPU support
    """
    _no_gpu("max_memory_allocated")


def max_memory_reserved(device: Any = None) -> NoReturn:
    """The most memory of a GPU that the process has held: an error without one.

    >>> import bireme as paddle
    >>> paddle.device.cuda.max_memory_reserved()
    Traceback (most recent call last):
    ...
    bireme.UnavailableError: `max_memory_reserved`: this build of Bireme has no GPU support
    """
    _no_gpu("max_memory_reserved")


def _no_gpu(function: str) -> NoReturn:
    raise _core.UnavailableError(f"`{function}`: this build of Bireme has no GPU support")


set_public_names(__name__)
__getattr__ = missing_names(__name__)
