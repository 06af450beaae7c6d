"""Where tensors live and ops run: on the CPU, or on an NVIDIA GPU."""

from __future__ import annotations

import os
from typing import Any

from .. import _core
from .._missing import missing_names
from .._names import set_public_names

CPUPlace = _core.CPUPlace
CUDAPlace = _core.CUDAPlace
CUDAPinnedPlace = _core.CUDAPinnedPlace


def set_device(device: str) -> Any:
    """Chooses the device for what follows: `"cpu"`, or `"gpu"` and `"gpu:0"` with one.

    `"gpu"` is the GPU that the launcher chose for this process (`FLAGS_selected_gpus`), or the first.
    New tensors belong to it, and executors that are given no place run on it. A program starts on
    the CPU. Without a GPU the latter are an error, unless the environment says `BIREME_DEVICE=cpu`.

    >>> import bireme as paddle
    >>> place = paddle.set_device("cpu")
    >>> paddle.get_device()
    'cpu'
    """
    place = place_of(device)
    _core.set_current_place(place)
    return place


def place_of(device: str) -> Any:
    """The place that a name such as `"gpu:0"` stands for; the GPU is opened.

    >>> place_of("cpu")
    Place(cpu)
    """
    if not isinstance(device, str):
        raise TypeError(f"`device` must be a string such as 'cpu', not {type(device).__name__}")
    kind, _, index = device.lower().partition(":")
    if kind == "cpu" and not index:
        return CPUPlace()
    if kind == "gpu" and (not index or index.isdigit()):
        # Makes the choice, and the error: see the class.
        return CUDAPlace(int(index) if index else selected_gpu())
    if kind in ("gpu", "cpu"):
        raise ValueError(f"device `{device}` must be written as 'cpu', 'gpu' or 'gpu:0'")
    raise ValueError(
        f"device `{device}` is not in Bireme: it has 'cpu', and 'gpu' where there is one"
    )


def selected_gpu() -> int:
    """The number of the GPU that the launcher chose for this process; 0 without one.

    >>> selected_gpu()
    0
    """
    text = os.environ.get("FLAGS_selected_gpus", "")
    first = text.split(",")[0].strip() or "0"
    if not first.isdigit():
        raise ValueError(
            f"the environment variable `FLAGS_selected_gpus` is {text!r}: it must be numbers of "
            "GPUs with commas between"
        )
    return int(first)


def get_device() -> str:
    """The device that was chosen, `"cpu"` or `"gpu:0"`.

    >>> import bireme as paddle
    >>> paddle.get_device()
    'cpu'
    """
    card = _core.current_card()
    return "cpu" if card is None else f"gpu:{card}"


def set_place(place: Any) -> None:
    """As `set_device`, for a place or the name of one.

    >>> import bireme as paddle
    >>> paddle.framework.place.set_place(paddle.CPUPlace())
    >>> paddle.get_device()
    'cpu'
    """
    _core.set_current_place(check_place(place))


def check_place(place: Any) -> Any:
    """A place that a user has given, by itself or by its name.

    >>> check_place("cpu")
    Place(cpu)
    """
    if isinstance(place, str):
        return place_of(place)
    if not isinstance(place, (CPUPlace, CUDAPlace, CUDAPinnedPlace)):
        raise TypeError(f"`place` must be a place such as CPUPlace(), not {type(place).__name__}")
    return place


def is_compiled_with_cuda() -> bool:
    """Whether NVIDIA GPUs can be used here: a driver is there, and a GPU.

    Every build has what it takes, so the answer is about the machine: scripts choose
    `CUDAPlace(0)` by it, which must exist then. False under `BIREME_DEVICE=cpu`.

    >>> import bireme as paddle
    >>> paddle.is_compiled_with_cuda() == (paddle.device.cuda.device_count() > 0)
    True
    """
    return _core.card_count() > 0


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


set_public_names(
    __name__,
    also="CPUPlace CUDAPinnedPlace CUDAPlace",
    but="check_place place_of selected_gpu set_place",
)
__getattr__ = missing_names(__name__)
