"""Tensor arrays: variables of programs that hold a list of tensors. In eager mode they are lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _core
from .arguments import TENSORS, Variable, ops

__all__ = ["array_length", "array_read", "array_write", "create_array"]

_KIND = "LOD_TENSOR_ARRAY"


def create_array(dtype: Any, initialized_list: Sequence[Any] | None = None) -> Any:
    """An array without tensors, or with those of `initialized_list`.

    >>> paddle.tensor.create_array("float32")
    []
    """
    given = list(initialized_list or [])
    wrong = next((item for item in given if not isinstance(item, TENSORS)), None)
    if wrong is not None:
        raise TypeError(f"an array holds tensors, not {type(wrong).__name__}")
    if _core.in_dynamic_mode():
        return given
    block = _core.default_main_program().current_block()
    array = block.create_var(name=_core.unique_name("array"), dtype=dtype, type=_KIND)
    for at, item in enumerate(given):
        array_write(item, _number(at), array)
    return array


def array_write(x: Any, i: Any, array: Any = None) -> Any:
    """Writes `x` into place `i` of an array, which grows as far as it must; a new one if none is given.

    >>> array = paddle.tensor.array_write(paddle.ones([2]), paddle.zeros([1], "int64"))
    >>> len(array)
    1
    """
    if isinstance(x, _core.Tensor):
        return _write_eager(x, i, array)
    array = create_array(x.dtype) if array is None else array
    check_array("array_write", array)
    if not array.shape:
        array._set_shape(x.shape)
    ops.write_to_array(x, _place("array_write", i), None, _into={"Out": array})
    return array


def _write_eager(x: Any, i: Any, array: Any) -> list[Any]:
    array, at = [] if array is None else array, int(i)
    if not isinstance(array, list):
        raise TypeError(f"in eager mode an array is a list, not {type(array).__name__}")
    if at > len(array):
        raise ValueError(f"place {at} lies beyond the end of an array of {len(array)} tensors")
    array[at : at + 1] = [x]
    return array


def array_read(array: Any, i: Any) -> Any:
    """The tensor in place `i` of an array.

    >>> paddle.tensor.array_read([paddle.ones([2])], 0).tolist()
    [1.0, 1.0]
    """
    if isinstance(array, list):
        return array[int(i)]
    check_array("array_read", array)
    return ops.read_from_array(array, _place("array_read", i))


def array_length(array: Any) -> Any:
    """How many places an array has.

    >>> paddle.tensor.array_length([paddle.ones([2])])
    1
    """
    if isinstance(array, list):
        return len(array)
    check_array("array_length", array)
    return ops.lod_array_length(array)


def is_array(value: Any) -> bool:
    """Whether a value is an array of a program."""
    return isinstance(value, Variable) and value.type == _KIND


def check_array(what: str, array: Any) -> None:
    if not is_array(array):
        raise TypeError(f"`{what}` takes an array, not {type(array).__name__}")


def _place(what: str, i: Any) -> Any:
    if isinstance(i, int) and not isinstance(i, bool):
        return _number(i)
    if not isinstance(i, Variable):
        raise TypeError(f"`{what}` takes a place as a variable or a number, not {type(i).__name__}")
    return i


def _number(value: int) -> Any:
    return ops.fill_constant(shape=[1], dtype="int64", value=float(value))
