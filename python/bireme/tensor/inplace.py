"""The functions whose names end in `_`: they put their result into their first argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _core
from . import (  # type: ignore[no-redef]  # the modules, whose names others import too
    creation,
    linalg,
    logic,
    manipulation,
    math,
    ops,
    search,
)
from . import scatter as scattering  # type: ignore[no-redef]
from .arguments import Variable, real, require_tensor
from .arguments import ops as core_ops

_SOURCES = (math, ops, manipulation, logic, linalg, search, scattering, creation)

#: What Paddle has in place, and we have.
_NAMES = [
    "abs",
    "acosh",
    "add",
    "addmm",
    "asinh",
    "atanh",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "cast",
    "ceil",
    "clip",
    "cos",
    "cosh",
    "cumsum",
    "divide",
    "equal",
    "erf",
    "exp",
    "expm1",
    "flatten",
    "floor",
    "floor_divide",
    "floor_mod",
    "frac",
    "greater_equal",
    "greater_than",
    "hypot",
    "index_add",
    "index_fill",
    "index_put",
    "lerp",
    "less_equal",
    "less_than",
    "log",
    "log10",
    "log1p",
    "log2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logit",
    "masked_fill",
    "mod",
    "multiply",
    "nan_to_num",
    "neg",
    "not_equal",
    "pow",
    "put_along_axis",
    "reciprocal",
    "remainder",
    "reshape",
    "round",
    "rsqrt",
    "scale",
    "scatter",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "squeeze",
    "subtract",
    "t",
    "tan",
    "tanh",
    "transpose",
    "tril",
    "triu",
    "trunc",
    "unsqueeze",
]


def overwrite(x: Any, result: Any) -> Any:
    """Puts a result into an eager tensor, with its history; in static mode it stays apart."""
    if isinstance(x, Variable):
        return result
    learns = not x.stop_gradient
    if learns and x.is_leaf and _core.is_grad_enabled():
        raise ValueError(
            f"`{x.name}` takes gradients and no op made it, so it cannot be changed in place: "
            "do it under `paddle.no_grad()`, or call `set_value`"
        )
    x._share(result)
    if learns and x.stop_gradient:
        # Under `no_grad` only the values change.
        x.stop_gradient = False
    return x


def _in_place(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        require_tensor(x, "x")
        return overwrite(x, function(x, *args, **kwargs))

    call.__name__ = call.__qualname__ = f"{name}_"
    # `inspect.signature` shows what the function itself takes.
    call.__wrapped__ = function  # type: ignore[attr-defined]
    call.__doc__ = f"As `{name}`, into its first argument, which it returns."
    return call


def _made() -> dict[str, Callable[..., Any]]:
    made = {}
    for name in _NAMES:
        function = next(getattr(m, name) for m in _SOURCES if hasattr(m, name))
        made[f"{name}_"] = _in_place(name, function)
    return made


FUNCTIONS = _made()


def fill_(x: Any, value: Any) -> Any:
    """Puts one number everywhere.

    >>> paddle.zeros([2]).fill_(3.0).tolist()
    [3.0, 3.0]
    """
    return overwrite(x, core_ops.fill_any_like(x, value=real(value, "value")))


def zero_(x: Any) -> Any:
    """Puts 0 everywhere.

    >>> paddle.ones([2]).zero_().tolist()
    [0.0, 0.0]
    """
    return fill_(x, 0.0)


def uniform_(
    x: Any, min: float = -1.0, max: float = 1.0, seed: int = 0, name: str | None = None
) -> Any:
    """Puts random numbers of [min, max) everywhere.

    >>> x = paddle.zeros([1000]).uniform_()
    >>> bool((x >= -1.0).all() and (x < 1.0).all() and (x != 0.0).any())
    True
    """
    require_tensor(x, "x")
    shape = list(x.shape)
    noise = core_ops.uniform_random(
        shape=shape, dtype=x.dtype, min=real(min, "min"), max=real(max, "max"), seed=seed
    )
    return overwrite(x, noise)


def normal_(x: Any, mean: float = 0.0, std: float = 1.0, name: str | None = None) -> Any:
    """Puts normally distributed random numbers everywhere.

    >>> round(paddle.zeros([10000]).normal_(mean=5.0).mean().item(), 1)
    5.0
    """
    require_tensor(x, "x")
    shape = list(x.shape)
    noise = core_ops.gaussian_random(
        shape=shape, dtype=x.dtype, mean=real(mean, "mean"), std=real(std, "std")
    )
    return overwrite(x, noise)


def where_(condition: Any, x: Any, y: Any, name: str | None = None) -> Any:
    """As `where`, into `x`, which it returns.

    >>> x = paddle.zeros([2])
    >>> paddle.where_(paddle.to_tensor([True, False]), x, paddle.ones([2])).tolist()
    [0.0, 1.0]
    """
    return overwrite(x, search.where(condition, x, y))


FUNCTIONS.update(normal_=normal_, where_=where_)
METHODS = {**FUNCTIONS, "fill_": fill_, "zero_": zero_, "uniform_": uniform_}
METHODS.pop("where_")
