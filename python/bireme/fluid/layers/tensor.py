"""Tensors made from nothing, or in another type, under their 1.x signatures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import _core
from ...static.backward import create_global_var as _create_global_var
from ...static.backward import create_parameter as _create_parameter
from ...tensor import arange as _arange
from ...tensor import assign, cast, eye, linspace
from ..framework import static_by_default

Variable = Any
_ops = _core.ops

__all__ = [
    "argmax",
    "argmin",
    "argsort",
    "assign",
    "cast",
    "create_global_var",
    "create_parameter",
    "create_tensor",
    "eye",
    "fill_constant",
    "fill_constant_batch_size_like",
    "gaussian_random",
    "linspace",
    "ones",
    "ones_like",
    "range",
    "uniform_random",
    "zeros",
    "zeros_like",
]


def create_tensor(dtype: Any, name: str | None = None, persistable: bool = False) -> Variable:
    """A variable without a value, to be written by another layer.

    >>> paddle.enable_static()
    >>> paddle.fluid.layers.create_tensor("float32", name="later").name
    'later'
    """
    static_by_default()
    block = _core.default_main_program().global_block()
    name = name or _core.unique_name("create_tensor")
    return block.create_var(name=name, dtype=dtype, persistable=persistable)


def create_parameter(
    shape: Sequence[int],
    dtype: Any,
    name: str | None = None,
    attr: Any = None,
    is_bias: bool = False,
    default_initializer: Any = None,
) -> Variable:
    """A parameter of the default main program.

    >>> paddle.fluid.layers.create_parameter([2, 3], "float32", name="w").name
    'w'
    """
    static_by_default()
    return _create_parameter(shape, dtype, name, attr, is_bias, default_initializer)


def create_global_var(
    shape: Sequence[int],
    value: float,
    dtype: Any,
    persistable: bool = False,
    force_cpu: bool = False,
    name: str | None = None,
) -> Variable:
    """A variable that the startup program fills with `value`; `force_cpu` has no meaning here.

    >>> paddle.fluid.layers.create_global_var([1], 0.5, "float32", persistable=True).shape
    (1,)
    """
    static_by_default()
    return _create_global_var(shape, value, dtype, persistable, force_cpu, name)


def fill_constant(
    shape: Sequence[int],
    dtype: Any,
    value: float,
    force_cpu: bool = False,
    out: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """A tensor of one value; `out`, where given, is overwritten. `force_cpu` has no meaning here.

    >>> paddle.fluid.layers.fill_constant([2], "int64", 7).tolist()
    [7, 7]
    """
    into = {} if out is None else {"Out": out}
    made = _ops.fill_constant(
        shape=list(shape), dtype=dtype, value=float(value), str_value=str(value), _into=into
    )
    return made if out is None else out


def fill_constant_batch_size_like(
    input: Variable,
    shape: Sequence[int],
    dtype: Any,
    value: float,
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    force_cpu: bool = False,
) -> Variable:
    """A tensor of one value, with one size taken from `input`; `force_cpu` has no meaning here.

    >>> batch = paddle.ones([3, 5])
    >>> paddle.fluid.layers.fill_constant_batch_size_like(batch, [-1, 1], "float32", 7.0).tolist()
    [[7.0], [7.0], [7.0]]
    """
    return _ops.fill_constant_batch_size_like(
        input,
        shape=list(shape),
        dtype=dtype,
        value=float(value),
        str_value=str(value),
        input_dim_idx=input_dim_idx,
        output_dim_idx=output_dim_idx,
    )


def ones(shape: Sequence[int], dtype: Any, force_cpu: bool = False) -> Variable:
    """A tensor of ones; `force_cpu` has no meaning here.

    >>> paddle.fluid.layers.ones([2], "float32").tolist()
    [1.0, 1.0]
    """
    return fill_constant(shape, dtype, 1.0)


def zeros(shape: Sequence[int], dtype: Any, force_cpu: bool = False) -> Variable:
    """A tensor of zeros; `force_cpu` has no meaning here.

    >>> paddle.fluid.layers.zeros([2], "float32").tolist()
    [0.0, 0.0]
    """
    return fill_constant(shape, dtype, 0.0)


def ones_like(x: Variable, out: Variable | None = None) -> Variable:
    """Ones in the shape of `x`; `out`, where given, is overwritten.

    >>> paddle.fluid.layers.ones_like(paddle.zeros([2])).tolist()
    [1.0, 1.0]
    """
    return _like(x, 1.0, out)


def zeros_like(x: Variable, out: Variable | None = None) -> Variable:
    """Zeros in the shape of `x`; `out`, where given, is overwritten.

    >>> paddle.fluid.layers.zeros_like(paddle.ones([2])).tolist()
    [0.0, 0.0]
    """
    return _like(x, 0.0, out)


def range(start: float, end: float, step: float, dtype: Any, name: str | None = None) -> Variable:
    """Numbers from `start` up to `end`, without it.

    >>> paddle.fluid.layers.range(0, 6, 2, "int64").tolist()
    [0, 2, 4]
    """
    return _arange(start, end, step, dtype)


def argmax(x: Variable, axis: int = 0) -> Variable:
    """Where the largest is along `axis`.

    >>> paddle.fluid.layers.argmax(paddle.to_tensor([1.0, 3.0, 2.0])).item()
    1
    """
    return _ops.arg_max(x, axis=axis)


def argmin(x: Variable, axis: int = 0) -> Variable:
    """Where the smallest is along `axis`.

    >>> paddle.fluid.layers.argmin(paddle.to_tensor([1.0, 3.0, 2.0])).item()
    0
    """
    return _ops.arg_min(x, axis=axis)


def argsort(
    input: Variable, axis: int = -1, descending: bool = False, name: str | None = None
) -> tuple[Variable, Variable]:
    """The elements in order along `axis`, and where they were.

    >>> values, places = paddle.fluid.layers.argsort(paddle.to_tensor([3.0, 1.0]))
    >>> places.tolist()
    [1, 0]
    """
    return _ops.argsort(input, axis=axis, descending=descending)


def uniform_random(
    shape: Sequence[int],
    dtype: Any = "float32",
    min: float = -1.0,
    max: float = 1.0,
    seed: int = 0,
    name: str | None = None,
) -> Variable:
    """Numbers evenly spread over [min, max).

    >>> paddle.fluid.layers.uniform_random([2, 3]).shape
    [2, 3]
    """
    return _ops.uniform_random(shape=list(shape), dtype=dtype, min=min, max=max, seed=seed)


def gaussian_random(
    shape: Sequence[int],
    mean: float = 0.0,
    std: float = 1.0,
    seed: int = 0,
    dtype: Any = "float32",
    name: str | None = None,
) -> Variable:
    """Normally distributed numbers.

    >>> paddle.fluid.layers.gaussian_random([2, 3]).shape
    [2, 3]
    """
    return _ops.gaussian_random(shape=list(shape), mean=mean, std=std, seed=seed, dtype=dtype)


def _like(x: Variable, value: float, out: Variable | None) -> Variable:
    if out is None:
        return _ops.fill_any_like(x, value=value)
    _ops.fill_any_like(x, value=value, _into={"Out": out})
    return out
