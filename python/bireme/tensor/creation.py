"""Making tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from .._names import set_public_names
from .arguments import (
    TENSORS,
    Tensor,
    Variable,
    constant,
    default_dtype,
    dtype_name,
    integer,
    is_float,
    ops,
    real,
    require_tensor,
    shape_slots,
)


def to_tensor(data: Any, dtype: Any = None, place: Any = None, stop_gradient: bool = True) -> Any:
    """A tensor of numbers, lists, arrays or tensors; Python floats become the default type.

    It lies at `place`, which is a place or the name of a device; without one a tensor stays where it
    is, and everything else goes to the current device.

    >>> paddle.to_tensor([1.0, 2.0]).tolist()
    [1.0, 2.0]
    """
    if place is not None:
        from ..nn.layer.state import device_place

        place = device_place(place)
    if not _core.in_dynamic_mode():
        return _static_constant(data, dtype)
    if isinstance(data, (list, tuple)):
        data = _plain_list(data)
    if dtype is None and default_dtype() != "float32" and _is_python_float(data):
        dtype = default_dtype()
    try:
        return _core.to_tensor(data, dtype=dtype, stop_gradient=stop_gradient, place=place)
    except ValueError as error:
        if "inhomogeneous" not in str(error):
            raise
        raise ValueError(
            "a list of lists becomes a tensor when those at one depth have one length: pad them"
        ) from None


def full(shape: Any, fill_value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """A tensor with the same number everywhere.

    >>> paddle.full([2], 3.0).tolist()
    [3.0, 3.0]
    """
    dtype = default_dtype() if dtype is None else dtype
    attribute, tensor, tensors = shape_slots(shape)
    if isinstance(fill_value, Variable):
        return ops.fill_constant(fill_value, tensor, tensors, shape=attribute, dtype=dtype)
    return ops.fill_constant(
        None,
        tensor,
        tensors,
        shape=attribute,
        dtype=dtype,
        value=real(fill_value, "fill_value"),
        str_value=_exact(fill_value),
    )


def zeros(shape: Any, dtype: Any = None, name: str | None = None) -> Any:
    """A tensor of zeros.

    >>> paddle.zeros([2]).tolist()
    [0.0, 0.0]
    """
    return full(shape, 0, dtype)


def ones(shape: Any, dtype: Any = None, name: str | None = None) -> Any:
    """A tensor of ones.

    >>> paddle.ones([2]).tolist()
    [1.0, 1.0]
    """
    return full(shape, 1, dtype)


def empty(shape: Any, dtype: Any = None, name: str | None = None) -> Any:
    """A tensor to be filled later: of zeros, so that runs can be repeated.

    >>> paddle.empty([2]).shape
    [2]
    """
    return full(shape, 0, dtype)


def full_like(x: Tensor, fill_value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """A tensor of the shape of another with the same number everywhere.

    >>> paddle.full_like(paddle.ones([2]), 3.0).tolist()
    [3.0, 3.0]
    """
    if dtype is None:
        return ops.fill_any_like(x, value=real(fill_value, "fill_value"))
    return ops.fill_any_like(x, value=real(fill_value, "fill_value"), dtype=dtype)


def zeros_like(x: Tensor, dtype: Any = None, name: str | None = None) -> Any:
    """Zeros in the shape of another tensor.

    >>> paddle.zeros_like(paddle.ones([2])).tolist()
    [0.0, 0.0]
    """
    return full_like(x, 0, dtype)


def ones_like(x: Tensor, dtype: Any = None, name: str | None = None) -> Any:
    """Ones in the shape of another tensor.

    >>> paddle.ones_like(paddle.zeros([2])).tolist()
    [1.0, 1.0]
    """
    return full_like(x, 1, dtype)


def empty_like(x: Tensor, dtype: Any = None, name: str | None = None) -> Any:
    """A tensor of the shape of another, to be filled later.

    >>> paddle.empty_like(paddle.zeros([2])).shape
    [2]
    """
    return full_like(x, 0, dtype)


def arange(
    start: Any = 0, end: Any = None, step: Any = 1, dtype: Any = None, name: str | None = None
) -> Any:
    """The numbers from `start` up to, but without, `end`.

    >>> paddle.arange(3).tolist()
    [0, 1, 2]
    """
    if end is None:
        start, end = 0, start
    numbers = (start, end, step)
    if dtype is None:
        dtype = _range_dtype(numbers)
    if any(isinstance(n, Variable) for n in numbers) or not _core.in_dynamic_mode():
        return ops.range(*(_as_constant(n, dtype) for n in numbers))
    first, last, every = (n.item() if isinstance(n, Tensor) else n for n in numbers)
    return _core.to_tensor(np.arange(first, last, every).astype(dtype_name(dtype)))


def linspace(start: Any, stop: Any, num: Any, dtype: Any = None, name: str | None = None) -> Any:
    """`num` numbers from `start` to `stop`, evenly spread.

    >>> paddle.linspace(0, 1, 3).tolist()
    [0.0, 0.5, 1.0]
    """
    dtype = "float32" if dtype is None else dtype_name(dtype)
    return ops.linspace(
        _as_constant(start, dtype),
        _as_constant(stop, dtype),
        _as_constant(num, "int32"),
        dtype=dtype,
    )


def logspace(
    start: Any, stop: Any, num: Any, base: float = 10.0, dtype: Any = None, name: str | None = None
) -> Any:
    """`base` to the powers of `num` numbers from `start` to `stop`.

    >>> paddle.logspace(0, 2, 3).tolist()
    [1.0, 10.0, 100.0]
    """
    powers = linspace(start, stop, num)
    out = ops.elementwise_pow(ops.fill_any_like(powers, value=real(base, "base")), powers)
    return out if dtype is None else ops.cast(out, in_dtype=out.dtype, out_dtype=dtype)


def eye(num_rows: int, num_columns: Any = None, dtype: Any = None, name: str | None = None) -> Any:
    """Ones on the diagonal, zeros elsewhere.

    >>> paddle.eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    columns = num_rows if num_columns is None else num_columns
    return ops.eye(
        num_rows=integer(num_rows, "num_rows"),
        num_columns=integer(columns, "num_columns"),
        dtype=default_dtype() if dtype is None else dtype,
    )


def tril(x: Tensor, diagonal: int = 0, name: str | None = None) -> Any:
    """The part on and under a diagonal; zeros elsewhere.

    >>> paddle.tril(paddle.ones([2, 2])).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    return ops.tril_triu(x, diagonal=diagonal, lower=True)


def triu(x: Tensor, diagonal: int = 0, name: str | None = None) -> Any:
    """The part on and over a diagonal; zeros elsewhere.

    >>> paddle.triu(paddle.ones([2, 2])).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    return ops.tril_triu(x, diagonal=diagonal, lower=False)


def tril_indices(row: int, col: int, offset: int = 0, dtype: Any = "int64") -> Any:
    """The places on and under a diagonal, as two rows.

    >>> paddle.tril_indices(2, 2).tolist()
    [[0, 1, 1], [0, 0, 1]]
    """
    return to_tensor(np.stack(np.tril_indices(row, offset, col)).astype(dtype_name(dtype)))


def triu_indices(row: int, col: Any = None, offset: int = 0, dtype: Any = "int64") -> Any:
    """The places on and over a diagonal, as two rows.

    >>> paddle.triu_indices(2, 2).tolist()
    [[0, 0, 1], [0, 1, 1]]
    """
    return to_tensor(np.stack(np.triu_indices(row, offset, col or row)).astype(dtype_name(dtype)))


def diag(x: Tensor, offset: int = 0, padding_value: int = 0, name: str | None = None) -> Any:
    """A matrix with `x` on a diagonal, or the diagonal of a matrix.

    >>> paddle.diag(paddle.to_tensor([1.0, 2.0])).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    require_tensor(x, "x")
    if x.ndim not in (1, 2):
        raise ValueError(f"`diag` takes one or two axes, but the input has {x.ndim}")
    return ops.diag_v2(
        x, offset=integer(offset, "offset"), padding_value=real(padding_value, "padding_value")
    )


def diagflat(x: Tensor, offset: int = 0, name: str | None = None) -> Any:
    """A matrix with the elements of `x` on a diagonal.

    >>> paddle.diagflat(paddle.to_tensor([[1.0, 2.0]])).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    return diag(ops.reshape2(x, shape=[-1]), offset)


def assign(x: Any, output: Any = None) -> Any:
    """A copy of a tensor, list or array, which gradients pass through.

    >>> paddle.assign([1.0, 2.0]).tolist()
    [1.0, 2.0]
    """
    x = x if isinstance(x, TENSORS) else to_tensor(x)
    if output is None:
        return ops.assign(x)
    ops.assign(x, _into={"Out": output})
    return output


def clone(x: Tensor, name: str | None = None) -> Any:
    """A copy that gradients pass through.

    >>> paddle.clone(paddle.ones([1])).tolist()
    [1.0]
    """
    return ops.assign(x)


def meshgrid(*args: Any, **kwargs: Any) -> Any:
    """The coordinates of a grid, from the coordinates of its axes.

    >>> [t.tolist() for t in paddle.meshgrid(paddle.to_tensor([1, 2]), paddle.to_tensor([3]))]
    [[[1], [2]], [[3], [3]]]
    """
    kwargs.pop("name", None)
    if kwargs:
        raise TypeError(f"`meshgrid` has no arguments {sorted(kwargs)}")
    axes = list(args[0]) if len(args) == 1 and isinstance(args[0], (list, tuple)) else list(args)
    return ops.meshgrid(axes, _count=len(axes))


def create_parameter(
    shape: Any,
    dtype: Any,
    name: str | None = None,
    attr: Any = None,
    is_bias: bool = False,
    default_initializer: Any = None,
) -> Any:
    """A parameter outside of any layer.

    >>> paddle.create_parameter([2, 3], "float32").shape
    [2, 3]
    """
    from ..framework import ParamAttr
    from ..nn.parameter import make_parameter

    attr = ParamAttr(name=name) if attr is None else attr
    prefix = _core.unique_name("create_parameter")
    return make_parameter(prefix, shape, attr, dtype, is_bias, default_initializer)


def create_tensor(dtype: Any, name: str | None = None, persistable: bool = False) -> Any:
    """An empty tensor to be filled later.

    >>> paddle.tensor.create_tensor("float32").shape
    [0]
    """
    name = name or _core.unique_name("create_tensor")
    if _core.in_dynamic_mode():
        return Tensor([], dtype=dtype, name=name, persistable=persistable)
    block = _core.default_main_program().current_block()
    return block.create_var(name=name, dtype=dtype, persistable=persistable)


def _exact(value: Any) -> str:
    """The number as text: large integers do not survive as floats."""
    return (
        str(int(value)) if isinstance(value, (bool, int, np.integer)) else str(real(value, "value"))
    )


def _is_python_float(data: Any) -> bool:
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return isinstance(data, float)


def _plain_list(data: Any) -> Any:
    """Nested lists with tensors in them as nested lists of numbers."""
    if isinstance(data, Tensor):
        return data.tolist()
    return [_plain_list(d) for d in data] if isinstance(data, (list, tuple)) else data


def _static_constant(data: Any, dtype: Any) -> Any:
    """What `to_tensor` means in static mode: a constant of the program."""
    if isinstance(data, Variable):
        return data if dtype is None else ops.cast(data, in_dtype=data.dtype, out_dtype=dtype)
    if isinstance(data, (list, tuple)) and any(isinstance(d, Variable) for d in data):
        return ops.stack([d if isinstance(d, Variable) else to_tensor(d, dtype) for d in data])
    array = data.numpy() if isinstance(data, Tensor) else np.asarray(data)
    if dtype is None and array.dtype == np.float64 and not isinstance(data, np.ndarray):
        dtype = default_dtype()
    array = array.astype(dtype_name(dtype)) if dtype is not None else array
    return ops.assign_value(shape=list(array.shape), dtype=array.dtype.name, **_values(array))


#: Which attribute of `assign_value` holds the values of an element type.
_VALUE_SLOTS = {
    "bool": "bool_values",
    "float32": "fp32_values",
    "float64": "fp64_values",
    "int32": "int32_values",
    "int64": "int64_values",
}


def _values(array: np.ndarray) -> dict[str, Any]:
    if array.dtype.name not in _VALUE_SLOTS:
        raise TypeError(f"a program cannot hold constants of type `{array.dtype.name}`")
    return {_VALUE_SLOTS[array.dtype.name]: array.ravel().tolist()}


def _as_constant(value: Any, dtype: Any) -> Any:
    if not isinstance(value, TENSORS):
        return constant(value, dtype_name(dtype))
    same = value.dtype == dtype
    return value if same else ops.cast(value, in_dtype=value.dtype, out_dtype=dtype)


def _range_dtype(numbers: tuple[Any, ...]) -> str:
    for number in numbers:
        if isinstance(number, TENSORS) and is_float(number):
            return number.dtype.name
        if isinstance(number, (float, np.floating)):
            return default_dtype()
    return "int64"


set_public_names(__name__)
