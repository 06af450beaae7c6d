"""Devices: the CPU, and NVIDIA GPUs where there are some."""

from __future__ import annotations

from typing import Any

from .. import _core
from .._missing import missing_names
from ..framework.place import (
    check_place,
    get_device,
    is_compiled_with_cinn,
    is_compiled_with_cuda,
    is_compiled_with_custom_device,
    is_compiled_with_distribute,
    is_compiled_with_ipu,
    is_compiled_with_npu,
    is_compiled_with_rocm,
    is_compiled_with_xpu,
    set_device,
)
from .streams import Event, Stream, current_stream, set_stream, stream_guard

__all__ = [
    "Event",
    "Stream",
    "current_stream",
    "get_all_custom_device_type",
    "get_all_device_type",
    "get_available_custom_device",
    "get_available_device",
    "get_cudnn_version",
    "get_device",
    "is_compiled_with_cinn",
    "is_compiled_with_cuda",
    "is_compiled_with_custom_device",
    "is_compiled_with_distribute",
    "is_compiled_with_ipu",
    "is_compiled_with_npu",
    "is_compiled_with_rocm",
    "is_compiled_with_xpu",
    "set_device",
    "set_stream",
    "stream_guard",
    "synchronize",
]


def get_all_device_type() -> list[str]:
    """The kinds of devices that can be used here.

    >>> import bireme as paddle
    >>> paddle.device.get_all_device_type()[0]
    'cpu'
    """
    return ["cpu", "gpu"] if _core.card_count() else ["cpu"]


def get_available_device() -> list[str]:
    """The devices of this machine that can be used.

    >>> import bireme as paddle
    >>> paddle.device.get_available_device()[0]
    'cpu'
    """
    return ["cpu", *(f"gpu:{number}" for number in range(_core.card_count()))]


def get_all_custom_device_type() -> list[str]:
    """The kinds of devices that were registered besides the built-in ones: none.

    >>> import bireme as paddle
    >>> paddle.device.get_all_custom_device_type()
    []
    """
    return []


def get_available_custom_device() -> list[str]:
    """The registered devices of this machine: none.

    >>> import bireme as paddle
    >>> paddle.device.get_available_custom_device()
    []
    """
    return []


def get_cudnn_version() -> int | None:
    """The version of cuDNN; None since this build has none.

    >>> import bireme as paddle
    >>> paddle.device.get_cudnn_version() is None
    True
    """
    return None


def synchronize(device: Any = None) -> None:
    """Waits until a device has done its work; without `device`, the one of `set_device`.

    The CPU has done its work when a call returns.

    >>> import bireme as paddle
    >>> paddle.device.synchronize() is None
    True
    """
    place = check_place(get_device() if device is None else device)
    if isinstance(place, _core.CUDAPlace):
        _core.synchronize_card(place.get_device_id())


__getattr__ = missing_names(__name__, {"cuda": "bireme.device.cuda"})
