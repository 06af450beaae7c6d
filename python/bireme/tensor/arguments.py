"""Turns what users write as arguments into what ops take.

Every function here is mode-blind: it returns eager tensors for eager input and static variables
for static input, so that the functions above it are written once.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core

Tensor = _core.Tensor
Variable = _core.Variable
ops = _core.ops

#: What counts as a tensor: eager or static.
TENSORS = (Tensor, Variable)

_FLOATS = frozenset(("float32", "float64", "float16", "bfloat16"))
_INTEGERS = frozenset(("int8", "int16", "int32", "int64", "uint8"))


def default_dtype() -> str:
    """The element type of tensors made without one: see `set_default_dtype`."""
    from ..framework import get_default_dtype

    return get_default_dtype()


def dtype_name(dtype: Any) -> str:
    """The name of an element type given as a string, numpy type or `paddle.dtype`."""
    return dtype if type(dtype) is str else _core.dtype(dtype).name


def is_float(x: Any) -> bool:
    """Whether a tensor holds floating point numbers."""
    try:
        return x.dtype.name in _FLOATS
    except AttributeError:
        raise not_a_tensor(x) from None


def is_integer(x: Any) -> bool:
    """Whether a tensor holds integers (booleans are none)."""
    try:
        return x.dtype.name in _INTEGERS
    except AttributeError:
        raise not_a_tensor(x) from None


def is_number(value: Any) -> bool:
    """Whether a value is a plain number, Python's or numpy's."""
    return isinstance(value, (int, float, np.number, np.bool_))


def not_a_tensor(value: Any, what: str = "x") -> TypeError:
    """The error for a value that stands where a tensor must."""
    hint = ": use `paddle.to_tensor`" if isinstance(value, (int, float, list, np.ndarray)) else ""
    return TypeError(f"`{what}` must be a tensor, but is of type `{type(value).__name__}`{hint}")


def require_tensor(value: Any, what: str) -> None:
    """Refuses an argument that is no tensor, by its name."""
    if not isinstance(value, TENSORS):
        raise not_a_tensor(value, what)


def integer(value: Any, what: str) -> int:
    """`value` as an integer: fractions are not cut off, and texts are not read as numbers."""
    try:
        return operator.index(value)
    except TypeError:
        return _not_an_integer(value, what)


def real(value: Any, what: str) -> float:
    """`value` as a float; texts are not read as numbers."""
    try:
        if not isinstance(value, (str, bytes)):
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise TypeError(f"`{what}` must be a number, but is {_shown(value)}")


def _shown(value: Any) -> str:
    kind = type(value).__name__
    return f"{value!r} of type `{kind}`" if len(repr(value)) < 60 else f"of type `{kind}`"


def constant(value: Any, dtype: Any, like: Any = None) -> Any:
    """A number as a 0-D tensor of the mode of `like` (of the current mode without it)."""
    static = isinstance(like, Variable) if like is not None else not _core.in_dynamic_mode()
    if static:
        # As text, since large integers do not survive as floats.
        text = str(int(value)) if isinstance(value, (bool, np.bool_)) else str(value)
        return ops.fill_constant(shape=[], dtype=dtype, value=float(value), str_value=text)
    return _made(value, dtype)


def _made(value: Any, dtype: Any) -> Any:
    try:
        return _core.to_tensor(value, dtype=dtype)
    except (TypeError, ValueError, OverflowError) as error:
        # numpy's words alone do not say what they are about.
        raise type(error)(f"{_shown(value)} cannot be made a tensor: {error}") from None


def as_tensor(value: Any, like: Any = None, dtype: Any = None) -> Any:
    """`value` as a tensor: tensors pass, numbers and arrays take the type of `like`."""
    if isinstance(value, TENSORS):
        return value
    if dtype is None and like is not None:
        if not isinstance(like, TENSORS):
            raise not_a_tensor(like)
        dtype = like.dtype
    if is_number(value):
        return constant(value, dtype_name(dtype) if dtype is not None else None, like)
    return _made(value, dtype)


def int_list(values: Any, what: str = "axis") -> list[int]:
    """A list of integers from an integer, a sequence, or an eager tensor of them."""
    if isinstance(values, Tensor):
        values = values.tolist()
    if isinstance(values, (int, np.integer)):
        return [int(values)]
    if isinstance(values, (Variable, str)) or not hasattr(values, "__iter__"):
        raise TypeError(f"`{what}` must be an integer or a list of them, but is {_shown(values)}")
    return [integer(value, what) for value in values]


def shape_slots(shape: Any, what: str = "shape") -> tuple[list[int], Any, list[Any]]:
    """Splits a shape argument into (attribute, whole-shape variable, variable for each dimension).

    Integers and eager tensors give the attribute alone. Static variables can only be inputs of
    the op: one variable for the whole shape, or one for each dimension, as Paddle does.
    """
    if type(shape) is list and all(type(size) is int for size in shape):
        return shape, None, []
    if isinstance(shape, Variable):
        return [], shape, []
    if isinstance(shape, Tensor) or not isinstance(shape, (list, tuple)):
        return int_list(shape, what), None, []
    if not any(isinstance(d, Variable) for d in shape):
        return [integer(d, what) for d in shape], None, []
    attribute = [-1 if isinstance(d, Variable) else integer(d, what) for d in shape]
    variables = [
        d
        if isinstance(d, Variable)
        else ops.fill_constant(shape=[1], dtype="int32", value=float(d), str_value=str(d))
        for d in shape
    ]
    return attribute, None, variables


def _not_an_integer(value: Any, what: str) -> int:
    raise TypeError(f"`{what}` must be an integer or an integer tensor, but is {_shown(value)}")


def reduce_dims(x: Any, axis: Any) -> dict[str, Any]:
    """The attributes `dim` and `reduce_all` of a reduction over `axis` (None or [] for all)."""
    if axis is None:
        return {"dim": [], "reduce_all": True}
    dims = int_list(axis)
    require_tensor(x, "x")
    return {"dim": dims, "reduce_all": not dims or len(dims) == x.ndim}


def matched_shape(*shapes: Sequence[int]) -> list[int]:
    """The shape that fits all, as numpy matches them; -1 stands for a size not known yet."""
    ndim = max(map(len, shapes))
    matched = []
    for sizes in zip(*([1] * (ndim - len(shape)) + list(shape) for shape in shapes)):
        wide = {size for size in sizes if size not in (1, -1)}
        if len(wide) > 1:
            raise ValueError(
                f"the shapes {[list(shape) for shape in shapes]} do not fit each other"
            )
        matched.append(wide.pop() if wide else min(sizes))
    return matched


def known_size(x: Any, axis: int, what: str) -> int:
    """The size of an axis, or an error where a program leaves it open."""
    require_tensor(x, "x")
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"`{what}` needs axis {axis}, but the tensor has {x.ndim} axes")
    size = x.shape[axis]
    if size < 0:
        raise ValueError(
            f"`{what}` needs to know the size of axis {axis}, which the program leaves open"
        )
    return size


def random_like(op: Any, x: Any, **numbers: Any) -> Any:
    """Random numbers in the shape and type of another tensor."""
    require_tensor(x, "x")
    tensor = ops.shape(x) if -1 in x.shape else None
    return op(tensor, shape=[] if tensor is not None else list(x.shape), dtype=x.dtype, **numbers)


def normal_axis(axis: Any, ndim: int, what: str = "axis") -> int:
    """`axis` counted from the front, or an error that names the range."""
    number = integer(axis, what)
    if not -ndim <= number < max(ndim, 1):
        raise ValueError(
            f"`{what}` is {number}, but must be in [{-ndim}, {ndim}) for {ndim}-D input"
        )
    return number + ndim if number < 0 else number


def pair(value: Any, count: int = 2, what: str = "argument") -> list[int]:
    """`value` as `count` integers: one number is repeated."""
    if isinstance(value, (int, np.integer)):
        return [int(value)] * count
    numbers = int_list(value, what)
    if len(numbers) == 1:
        return numbers * count
    if len(numbers) != count:
        raise ValueError(f"`{what}` must be one number or {count} numbers, but is {list(value)}")
    return numbers


def numpy_of(x: Any, what: str) -> np.ndarray:
    """The value of an eager tensor, for the few functions that compute in numpy."""
    if isinstance(x, Variable):
        raise NotImplementedError(f"`{what}` needs values, so it works in eager mode only")
    return x if isinstance(x, np.ndarray) else as_tensor(x).numpy()


def check_no_output(out: Any, name: str) -> None:
    """Refuses the `out=` argument, which has no meaning for values that are never overwritten."""
    if out is not None:
        raise ValueError(f"`{name}` cannot write into `out=`: use its return value")


def sequence_of(values: Any, name: str) -> Sequence[Any]:
    """`values` if it is a list or tuple of tensors, else an error that says so."""
    if isinstance(values, (list, tuple)) and values:
        return values
    if isinstance(values, TENSORS):
        return [values]
    raise TypeError(
        f"`{name}` needs a non-empty list or tuple of tensors, but got `{type(values).__name__}`"
    )
