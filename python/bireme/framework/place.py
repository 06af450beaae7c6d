"""Where tensors live and ops run: on the CPU, in this build."""

from __future__ import annotations

from typing import Any

from .. import _core
from .._missing import missing_names
from .._names import set_public_names

CPUPlace = _core.CPUPlace
CUDAPlace = _core.CUDAPlace
CUDAPinnedPlace = _core.CUDAPinnedPlace


def set_device(device: str) -> Any:
    """Chooses the device for what follows: `"cpu"`, or `"gpu"` and `"gpu:0"` with one.

    Without a GPU the latter are an error, unless the environment says `BIREME_DEVICE=cpu`.

    >>> import bireme as paddle
    >>> place = paddle.set_device("cpu")
    >>> paddle.get_device()
    'cpu'
    """
    if not isinstance(device, str):
        raise TypeError(f"`device` must be a string such as 'cpu', not {type(device).__name__}")
    kind, _, index = device.lower().partition(":")
    if kind == "cpu" and not index:
        return CPUPlace()
    if kind == "gpu" and (not index or index.isdigit()):
        # Makes the choice, and the error: see the class.
        return CUDAPlace(int(index or 0))
    if kind in ("gpu", "cpu"):
        raise ValueError(f"device `{device}` must be written as 'cpu', 'gpu' or 'gpu:0'")
    raise ValueError(
        f"device `{device}` is not in Bireme: it has 'cpu', and 'gpu' where there is one"
    )


def get_device() -> str:
    """The device that ops run on.

    >>> import bireme as paddle
    >>> paddle.get_device()
    'cpu'
    """
    return "cpu"


def set_place(place: Any) -> None:
    """Checks a place that a user has given where nothing but the CPU can be chosen.

    >>> import bireme as paddle
    >>> paddle.framework.place.set_place(paddle.CPUPlace())
    >>> paddle.get_device()
    'cpu'
    """
    if isinstance(place, str):
        set_device(place)
    elif not isinstance(place, (CPUPlace, CUDAPlace, CUDAPinnedPlace)):
        raise TypeError(f"`place` must be a place such as CPUPlace(), not {type(place).__name__}")


def is_compiled_with_cuda() -> bool:
    """Whether this build can use NVIDIA GPUs.

    >>> import bireme as paddle
    >>> paddle.is_compiled_with_cuda()
    False
    """
    return False


def is_compiled_with_rocm() -> bool:
    """Whether this build can use AMD GPUs.

    >>> import bireme as paddle
    >>> paddle.is_compiled_with_rocm()
    False
    """
    return False


def is_compiled_with_xpu() -> bool:
    """Whether this build can use Kunlun chips.

    >>> import bireme as paddle
    >>> paddle.is_compiled_with_xpu()
    False
    """
    return False


def is_compiled_with_ipu() -> bool:
    """Whether this build can use Graphcore chips.

    >>> import bireme as paddle
    >>> paddle.is_compiled_with_ipu()
    False
    """
    return False


def is_compiled_with_npu() -> bool:
    """Whether this build can use Ascend chips; newer scripts ask for the custom device `npu`.

    >>> import bireme as paddle
    >>> paddle.is_compiled_with_npu()
    False
    """
    return False


def is_compiled_with_cinn() -> bool:
    """Whether this build has Paddle's CINN compiler.

    >>> import bireme as paddle
    >>> paddle.is_compiled_with_cinn()
    False
    """
    return False


def is_compiled_with_custom_device(device_type: str) -> bool:
    """Whether this build can use a device that was registered under a name.

    >>> import bireme as paddle
    >>> paddle.is_compiled_with_custom_device("npu")
    False
    """
    return False


def is_compiled_with_distribute() -> bool:
    """Whether this build can train on several machines.

    >>> import bireme as paddle
    >>> paddle.is_compiled_with_distribute()
    True
    """
    return True


set_public_names(__name__, also="CPUPlace CUDAPinnedPlace CUDAPlace", but="set_place")
__getattr__ = missing_names(__name__)
