"""Devices: this build has the CPU."""

from __future__ import annotations

from .._missing import missing_names
from ..framework.place import (
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

__all__ = [
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
    "synchronize",
]


def get_all_device_type() -> list[str]:
    """The kinds of devices that this build can use.

    >>> import bireme as paddle
    >>> paddle.device.get_all_device_type()
    ['cpu']
    """
    return ["cpu"]


def get_available_device() -> list[str]:
    """The devices of this machine that can be used.

    >>> import bireme as paddle
    >>> paddle.device.get_available_device()
    ['cpu']
    """
    return ["cpu"]


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


def synchronize(device: str | None = None) -> None:
    """Waits until the device has done its work; on the CPU it has, when a call returns.

    >>> import bireme as paddle
    >>> paddle.device.synchronize() is None
    True
    """
    if device is not None:
        set_device(device)


__getattr__ = missing_names(__name__, {"cuda": "bireme.device.cuda"})
