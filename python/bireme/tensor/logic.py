"""Comparisons and truth values."""

from __future__ import annotations

from typing import Any

from .._names import set_public_names
from .arguments import TENSORS, Tensor, as_tensor, check_no_output, ops, real, require_tensor


def _are_truths(x: Tensor, y: Tensor) -> bool:
    """Of truth values there is one bit, for which `logical_…` has a kernel on every device."""
    require_tensor(x, "x")
    require_tensor(y, "y")
    return x.dtype == "bool"


def equal(x: Tensor, y: Any, name: str | None = None) -> Any:
    """Whether each element of `x` equals that of `y`.

    >>> paddle.equal(paddle.to_tensor([1, 2]), paddle.to_tensor([1, 3])).tolist()
    [True, False]
    """
    return ops.equal(x, as_tensor(y, x))


def not_equal(x: Tensor, y: Any, name: str | None = None) -> Any:
    """Whether each element of `x` differs from that of `y`.

    >>> paddle.not_equal(paddle.to_tensor([1, 2]), paddle.to_tensor([1, 3])).tolist()
    [False, True]
    """
    return ops.not_equal(x, as_tensor(y, x))


def less_than(x: Tensor, y: Any, name: str | None = None) -> Any:
    """Whether each element of `x` is under that of `y`.

    >>> paddle.less_than(paddle.to_tensor([1, 2]), paddle.to_tensor([1, 3])).tolist()
    [False, True]
    """
    return ops.less_than(x, as_tensor(y, x))


def less_equal(x: Tensor, y: Any, name: str | None = None) -> Any:
    """Whether each element of `x` is at most that of `y`.

    >>> paddle.less_equal(paddle.to_tensor([1, 2]), paddle.to_tensor([1, 0])).tolist()
    [True, False]
    """
    return ops.less_equal(x, as_tensor(y, x))


def greater_than(x: Tensor, y: Any, name: str | None = None) -> Any:
    """Whether each element of `x` is over that of `y`.

    >>> paddle.greater_than(paddle.to_tensor([1, 2]), paddle.to_tensor([0, 3])).tolist()
    [True, False]
    """
    return ops.greater_than(x, as_tensor(y, x))


def greater_equal(x: Tensor, y: Any, name: str | None = None) -> Any:
    """Whether each element of `x` is at least that of `y`.

    >>> paddle.greater_equal(paddle.to_tensor([1, 2]), paddle.to_tensor([1, 3])).tolist()
    [True, False]
    """
    return ops.greater_equal(x, as_tensor(y, x))


def logical_and(x: Tensor, y: Tensor, out: Any = None, name: str | None = None) -> Any:
    """Whether both are true.

    >>> paddle.logical_and(paddle.to_tensor([True, True]), paddle.to_tensor([True, False])).tolist()
    [True, False]
    """
    check_no_output(out, "logical_and")
    return ops.logical_and(x, y)


def bitwise_and(x: Tensor, y: Tensor, out: Any = None, name: str | None = None) -> Any:
    """`and` of each pair of bits, of integers or truth values.

    >>> paddle.bitwise_and(paddle.to_tensor([6, -1]), paddle.to_tensor([3, 5])).tolist()
    [2, 5]
    """
    check_no_output(out, "bitwise_and")
    return ops.logical_and(x, y) if _are_truths(x, y) else ops.bitwise_and(x, y)


def logical_or(x: Tensor, y: Tensor, out: Any = None, name: str | None = None) -> Any:
    """Whether either is true.

    >>> paddle.logical_or(paddle.to_tensor([True, True]), paddle.to_tensor([True, False])).tolist()
    [True, True]
    """
    check_no_output(out, "logical_or")
    return ops.logical_or(x, y)


def bitwise_or(x: Tensor, y: Tensor, out: Any = None, name: str | None = None) -> Any:
    """`or` of each pair of bits, of integers or truth values.

    >>> paddle.bitwise_or(paddle.to_tensor([6, 8]), paddle.to_tensor([3, 1])).tolist()
    [7, 9]
    """
    check_no_output(out, "bitwise_or")
    return ops.logical_or(x, y) if _are_truths(x, y) else ops.bitwise_or(x, y)


def logical_xor(x: Tensor, y: Tensor, out: Any = None, name: str | None = None) -> Any:
    """Whether only one is true.

    >>> paddle.logical_xor(paddle.to_tensor([True, True]), paddle.to_tensor([True, False])).tolist()
    [False, True]
    """
    check_no_output(out, "logical_xor")
    return ops.logical_xor(x, y)


def bitwise_xor(x: Tensor, y: Tensor, out: Any = None, name: str | None = None) -> Any:
    """`xor` of each pair of bits, of integers or truth values.

    >>> paddle.bitwise_xor(paddle.to_tensor([6, 8]), paddle.to_tensor([3, 8])).tolist()
    [5, 0]
    """
    check_no_output(out, "bitwise_xor")
    return ops.logical_xor(x, y) if _are_truths(x, y) else ops.bitwise_xor(x, y)


def logical_not(x: Tensor, out: Any = None, name: str | None = None) -> Any:
    """Whether each element is false.

    >>> paddle.logical_not(paddle.to_tensor([True, False])).tolist()
    [False, True]
    """
    check_no_output(out, "logical_not")
    return ops.logical_not(x)


def bitwise_not(x: Tensor, out: Any = None, name: str | None = None) -> Any:
    """Each bit turned over, of integers or truth values.

    >>> paddle.bitwise_not(paddle.to_tensor([0, 6])).tolist()
    [-1, -7]
    """
    check_no_output(out, "bitwise_not")
    require_tensor(x, "x")
    return ops.logical_not(x) if x.dtype == "bool" else ops.bitwise_not(x)


def equal_all(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """Whether two tensors have the same shape and the same elements.

    >>> paddle.equal_all(paddle.ones([2]), paddle.ones([2])).item()
    True
    """
    require_tensor(x, "x")
    if list(x.shape) != list(y.shape):
        return as_tensor(False, dtype="bool")
    return ops.reduce_all(ops.equal(x, y), reduce_all=True, dim=[])


def isclose(
    x: Tensor,
    y: Tensor,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
    name: str | None = None,
) -> Any:
    """Whether each element is about that of `y`.

    >>> paddle.isclose(paddle.ones([1]), paddle.ones([1]) * 1.000001).tolist()
    [True]
    """
    require_tensor(x, "x")
    near = ops.less_equal(
        ops.abs(x - y), ops.scale(ops.abs(y), scale=real(rtol, "rtol"), bias=real(atol, "atol"))
    )
    near = ops.logical_or(near, ops.equal(x, y))
    if not equal_nan:
        return near
    return ops.logical_or(near, ops.logical_and(ops.isnan_v2(x), ops.isnan_v2(y)))


def allclose(
    x: Tensor,
    y: Tensor,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
    name: str | None = None,
) -> Any:
    """Whether all elements are about those of `y`.

    >>> paddle.allclose(paddle.ones([1]), paddle.ones([1]) * 1.000001).item()
    True
    """
    return ops.reduce_all(isclose(x, y, rtol, atol, equal_nan), reduce_all=True, dim=[])


def is_empty(x: Tensor, name: str | None = None) -> Any:
    """Whether a tensor has no elements.

    >>> paddle.is_empty(paddle.ones([0])).item()
    True
    """
    require_tensor(x, "x")
    return as_tensor(0 in list(x.shape), dtype="bool")


def is_tensor(x: Any) -> Any:
    """Whether a value is a tensor, eager or static.

    >>> paddle.is_tensor(paddle.ones([1])), paddle.is_tensor([1])
    (True, False)
    """
    return isinstance(x, TENSORS)


set_public_names(__name__)
