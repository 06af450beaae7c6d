"""What 1.x scripts take from Paddle's C++ side."""

from .. import _core
from .._errors import EOFException
from .._missing import missing_names
from ..device import is_compiled_with_cuda

CPUPlace = _core.CPUPlace
CUDAPlace = _core.CUDAPlace
CUDAPinnedPlace = _core.CUDAPinnedPlace
LoDTensor = _core.LoDTensor
Scope = _core.Scope
Program = _core.Program

__all__ = [
    "CPUPlace",
    "CUDAPinnedPlace",
    "CUDAPlace",
    "EOFException",
    "LoDTensor",
    "Program",
    "Scope",
    "is_compiled_with_cuda",
]

__getattr__ = missing_names(__name__)
