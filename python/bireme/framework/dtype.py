"""Element types: `paddle.float32` and the others, and the default one."""

from __future__ import annotations

from typing import Any

from .. import _core
from .._missing import missing_names

dtype = _core.dtype

uint8 = dtype("uint8")
int8 = dtype("int8")
int16 = dtype("int16")
int32 = dtype("int32")
int64 = dtype("int64")
float16 = dtype("float16")
float32 = dtype("float32")
float64 = dtype("float64")
bfloat16 = dtype("bfloat16")
bool = dtype("bool")

__all__ = [
    "bfloat16",
    "bool",
    "dtype",
    "finfo",
    "float16",
    "float32",
    "float64",
    "iinfo",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
]


def get_default_dtype() -> str:
    """The type of floating-point tensors and parameters for which none is given.

    >>> import bireme as paddle
    >>> paddle.get_default_dtype()
    'float32'
    """
    return _core.dtype(_core.get_default_dtype()).name


def set_default_dtype(d: Any) -> None:
    """Chooses the type of floating-point tensors and parameters for which none is given.

    >>> import bireme as paddle
    >>> paddle.set_default_dtype("float64")
    >>> paddle.get_default_dtype()
    'float64'
    >>> paddle.set_default_dtype("float32")
    """
    name = dtype(d).name
    if name not in ("float16", "float32", "float64", "bfloat16"):
        raise TypeError(
            f"the default dtype must be float16, float32, float64 or bfloat16, not {name}"
        )
    _core.set_default_dtype(name)


class iinfo:
    """The limits of an integer type.

    >>> import bireme as paddle
    >>> paddle.iinfo(paddle.int8).max
    127
    """

    def __init__(self, dtype: Any) -> None:
        import numpy as np

        self.dtype = _core.dtype(dtype).name
        if "int" not in self.dtype:
            raise ValueError(f"`iinfo` is for integer types, not {self.dtype}: use `finfo`")
        limits = np.iinfo(self.dtype)
        self.min, self.max, self.bits = int(limits.min), int(limits.max), int(limits.bits)

    def __repr__(self) -> str:
        return f"paddle.iinfo(min={self.min}, max={self.max}, bits={self.bits}, dtype={self.dtype})"


class finfo:
    """The limits of a floating-point type.

    >>> import bireme as paddle
    >>> paddle.finfo("float32").eps
    1.1920928955078125e-07
    """

    def __init__(self, dtype: Any) -> None:
        self.dtype = _core.dtype(dtype).name
        if self.dtype == "bfloat16":
            # NumPy does not know it: the exponents of float32 with 7 bits of fraction.
            self.max, self.eps, self.tiny, self.resolution = (
                3.3895313892515355e38,
                2**-7,
                2**-126,
                0.01,
            )
            self.bits = 16
        elif "float" in self.dtype:
            self._from_numpy()
        else:
            raise ValueError(f"`finfo` is for floating-point types, not {self.dtype}: use `iinfo`")
        self.min, self.smallest_normal = -self.max, self.tiny

    def _from_numpy(self) -> None:
        import numpy as np

        limits = np.finfo(self.dtype)
        self.max, self.eps, self.tiny = float(limits.max), float(limits.eps), float(limits.tiny)
        self.resolution, self.bits = float(limits.resolution), int(limits.bits)

    def __repr__(self) -> str:
        return (
            f"paddle.finfo(min={self.min}, max={self.max}, eps={self.eps}, "
            f"resolution={self.resolution}, smallest_normal={self.smallest_normal}, "
            f"tiny={self.tiny}, bits={self.bits}, dtype={self.dtype})"
        )


__getattr__ = missing_names(__name__)
