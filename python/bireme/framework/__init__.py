"""What everything else stands on: types, places, modes, gradients, flags, saving and loading.

Most of it is `paddle.*`: `bireme` takes over all names of `__all__`.
"""

from __future__ import annotations

from .. import _core
from .._missing import missing_names
from . import dtype as dtypes
from .dtype import *
from .dtype import get_default_dtype, set_default_dtype
from .flags import get_flags, set_flags
from .gradient import enable_grad, grad, is_grad_enabled, no_grad, set_grad_enabled
from .io import load, save
from .mode import disable_signal_handler, disable_static, enable_static, in_dynamic_mode
from .param_attr import ParamAttr
from .place import (
    CPUPlace,
    CUDAPinnedPlace,
    CUDAPlace,
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
from .random import seed

# Found here, but not in `paddle.*`.
Program = _core.Program
Parameter = _core.Parameter

__all__ = [
    "CPUPlace",
    "CUDAPinnedPlace",
    "CUDAPlace",
    "ParamAttr",
    "disable_signal_handler",
    "disable_static",
    "enable_grad",
    "enable_static",
    "get_default_dtype",
    "get_device",
    "get_flags",
    "grad",
    "in_dynamic_mode",
    "is_compiled_with_cinn",
    "is_compiled_with_cuda",
    "is_compiled_with_custom_device",
    "is_compiled_with_distribute",
    "is_compiled_with_ipu",
    "is_compiled_with_npu",
    "is_compiled_with_rocm",
    "is_compiled_with_xpu",
    "is_grad_enabled",
    "load",
    "no_grad",
    "save",
    "seed",
    "set_default_dtype",
    "set_device",
    "set_flags",
    "set_grad_enabled",
]
__all__ += dtypes.__all__

__getattr__ = missing_names(__name__, {"core": "bireme.framework.core"})
