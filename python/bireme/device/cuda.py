"""NVIDIA GPUs: how many there are, what they are, what is in their memory.

`device` is a number, `"gpu:0"` or a `CUDAPlace`; without it, the GPU of `set_device` or the first.
Where there is none, every function but `device_count` says what is missing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import _core
from .._missing import missing_names
from .streams import Event, Stream, card_number, current_stream, stream_guard

__all__ = [
    "Event",
    "Stream",
    "current_stream",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "reset_max_memory_allocated",
    "reset_max_memory_reserved",
    "stream_guard",
    "synchronize",
]


class _Properties(NamedTuple):
    """What a GPU is; `total_memory` in bytes."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int


def device_count() -> int:
    """The number of GPUs that can be used; 0 without a driver, and under `BIREME_DEVICE=cpu`.

    >>> import bireme as paddle
    >>> paddle.device.cuda.device_count() >= 0
    True
    """
    return _core.card_count()


def get_device_properties(device: Any = None) -> _Properties:
    """Name, compute capability (`major`, `minor`), `total_memory` and `multi_processor_count`.

    >>> import bireme as paddle
    >>> if paddle.device.cuda.device_count():
    ...     assert paddle.device.cuda.get_device_properties(0).total_memory > 0
    """
    return _Properties(*_core.card_properties(card_number(device)))


def get_device_name(device: Any = None) -> str:
    """The name of a GPU.

    >>> import bireme as paddle
    >>> if paddle.device.cuda.device_count():
    ...     assert paddle.device.cuda.get_device_name(0)
    """
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of a GPU, as (9, 0).

    >>> import bireme as paddle
    >>> if paddle.device.cuda.device_count():
    ...     assert paddle.device.cuda.get_device_capability(0) >= (8, 0)
    """
    properties = get_device_properties(device)
    return properties.major, properties.minor


def synchronize(device: Any = None) -> None:
    """Waits until a GPU has done all that it was given.

    >>> import bireme as paddle
    >>> if paddle.device.cuda.device_count():
    ...     paddle.device.cuda.synchronize()
    """
    _core.synchronize_card(card_number(device))


def empty_cache() -> None:
    """Gives memory back that is kept of GPUs without being used; nothing where none is in use.

    >>> import bireme as paddle
    >>> paddle.device.cuda.empty_cache() is None
    True
    """
    _core.empty_card_caches()


def memory_allocated(device: Any = None) -> int:
    """Bytes of a GPU that are in use by this process.

    >>> import bireme as paddle
    >>> if paddle.device.cuda.device_count():
    ...     assert paddle.device.cuda.memory_allocated() >= 0
    """
    return _core.card_memory(card_number(device))["allocated"]


def memory_reserved(device: Any = None) -> int:
    """Bytes of a GPU that this process has, in use or kept for later.

    >>> import bireme as paddle
    >>> if paddle.device.cuda.device_count():
    ...     assert paddle.device.cuda.memory_reserved() >= 0
    """
    return _core.card_memory(card_number(device))["reserved"]


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes of a GPU that were in use by this process at a time.

    >>> import bireme as paddle
    >>> if paddle.device.cuda.device_count():
    ...     assert paddle.device.cuda.max_memory_allocated() >= 0
    """
    return _core.card_memory(card_number(device))["max_allocated"]


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes of a GPU that this process has had at a time.

    >>> import bireme as paddle
    >>> if paddle.device.cuda.device_count():
    ...     assert paddle.device.cuda.max_memory_reserved() >= 0
    """
    return _core.card_memory(card_number(device))["max_reserved"]


def reset_max_memory_allocated(device: Any = None) -> None:
    """Lets `max_memory_allocated` begin anew with what is in use now.

    >>> import bireme as paddle
    >>> if paddle.device.cuda.device_count():
    ...     paddle.device.cuda.reset_max_memory_allocated()
    """
    _core.reset_card_peak(card_number(device), False)


def reset_max_memory_reserved(device: Any = None) -> None:
    """Lets `max_memory_reserved` begin anew with what this process has now.

    >>> import bireme as paddle
    >>> if paddle.device.cuda.device_count():
    ...     paddle.device.cuda.reset_max_memory_reserved()
    """
    _core.reset_card_peak(card_number(device), True)


__getattr__ = missing_names(__name__)
