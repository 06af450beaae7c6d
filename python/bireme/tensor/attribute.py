"""What tensors are, as values."""

from __future__ import annotations

from typing import Any

from .arguments import Tensor, constant, is_float, ops, require_tensor
from .arguments import is_integer as holds_integers

__all__ = ["is_complex", "is_floating_point", "is_integer", "rank", "shape"]


def shape(input: Tensor) -> Any:
    """The shape as an int32 tensor, which static programs can compute with.

    >>> paddle.shape(paddle.ones([2, 3])).tolist()
    [2, 3]
    """
    return ops.shape(input)


def rank(input: Tensor) -> Any:
    """The number of axes, as a tensor.

    >>> paddle.rank(paddle.ones([2, 3])).item()
    2
    """
    require_tensor(input, "input")
    return constant(input.ndim, "int32", input)


def is_floating_point(x: Tensor) -> Any:
    """Whether a tensor holds floating point numbers.

    >>> paddle.is_floating_point(paddle.ones([1]))
    True
    """
    return is_float(x)


def is_integer(x: Tensor) -> Any:
    """Whether a tensor holds integers.

    >>> paddle.is_integer(paddle.ones([1]))
    False
    """
    return holds_integers(x)


def is_complex(x: Tensor) -> Any:
    """Whether a tensor holds complex numbers: there are none.

    >>> paddle.is_complex(paddle.ones([1]))
    False
    """
    require_tensor(x, "x")
    return x.dtype.name.startswith("complex")
