"""Tensors handed to other libraries, and taken from them, without copies.

>>> import numpy as np
>>> import bireme as paddle
>>> from bireme.utils.dlpack import from_dlpack, to_dlpack
>>> from_dlpack(np.arange(3)).tolist()
[0, 1, 2]
>>> np.from_dlpack(paddle.ones([2])).tolist()
[1.0, 1.0]
>>> from_dlpack(to_dlpack(paddle.ones([2]))).tolist()
[1.0, 1.0]
"""

from __future__ import annotations

from typing import Any

from .. import _core

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(x: Any) -> Any:
    """A capsule with the memory of a tensor, which one other library can take.

    The memory stays as long as the tensor or the other library holds it; neither should write it.
    On a GPU this waits for what computes the tensor; `other.from_dlpack(x)` does not, because it says
    on which stream it is.
    """
    if not isinstance(x, _core.Tensor):
        raise TypeError(f"`to_dlpack` takes a tensor, not {type(x).__name__}")
    return x.__dlpack__()


def from_dlpack(dlpack: Any) -> Any:
    """A tensor in the memory of an array of another library: of what has `__dlpack__`, or a capsule.

    On the CPU an array whose elements do not lie one after the other is copied; on a GPU it is an
    error.
    """
    return _core.from_dlpack(dlpack)
