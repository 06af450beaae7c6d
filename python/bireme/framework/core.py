"""The part of Paddle's native module that scripts reach for by `paddle.framework.core`."""

from __future__ import annotations

from .. import _core
from .._errors import EOFException
from .._missing import missing_names
from .place import (
    CPUPlace,
    CUDAPinnedPlace,
    CUDAPlace,
    is_compiled_with_cuda,
    is_compiled_with_rocm,
    is_compiled_with_xpu,
)
from .ps_gpu import PSGPU

LoDTensor = _core.LoDTensor
Program = _core.Program
Scope = _core.Scope

__all__ = [
    "PSGPU",
    "CPUPlace",
    "CUDAPinnedPlace",
    "CUDAPlace",
    "EOFException",
    "LoDTensor",
    "Program",
    "Scope",
    "VarDesc",
    "get_cuda_device_count",
    "is_compiled_with_cuda",
    "is_compiled_with_rocm",
    "is_compiled_with_xpu",
]


class VarDesc:
    """Holds `VarType`, the element types under the names of Paddle's protocol.

    >>> import bireme as paddle
    >>> paddle.framework.core.VarDesc.VarType.FP32 == paddle.float32
    True
    """

    class VarType:
        """Element types; each equals the one of `paddle.*`."""

        BOOL = _core.dtype("bool")
        UINT8 = _core.dtype("uint8")
        INT8 = _core.dtype("int8")
        INT16 = _core.dtype("int16")
        INT32 = _core.dtype("int32")
        INT64 = _core.dtype("int64")
        FP16 = _core.dtype("float16")
        BF16 = _core.dtype("bfloat16")
        FP32 = _core.dtype("float32")
        FP64 = _core.dtype("float64")


def get_cuda_device_count() -> int:
    """The number of GPUs that this build can use.

    >>> import bireme as paddle
    >>> paddle.framework.core.get_cuda_device_count()
    0
    """
    return 0


__getattr__ = missing_names(__name__)
