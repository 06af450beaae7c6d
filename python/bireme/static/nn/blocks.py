"""Blocks inside of programs: what conditions and loops are built of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ... import _core
from ...tensor.array import is_array
from ..program import Variable

__all__: list[str] = []

ops = _core.ops


def current_block() -> Any:
    """The block of the default main program that ops are appended to."""
    return _core.default_main_program().current_block()


@contextmanager
def building() -> Iterator[Any]:
    """A new block inside of the current one, to which ops are appended meanwhile."""
    program = _core.default_main_program()
    block = program._create_block()
    try:
        yield block
    finally:
        program._rollback()


def append_condition(condition: Any, block: Any) -> None:
    """Appends the op that runs `block` if `condition` holds."""
    reads, writes = block._outside()
    current_block().append_op(
        "conditional_block",
        inputs={"Cond": [condition.name], "Input": reads},
        outputs={"Out": writes, "Scope": [_scopes()]},
        attrs={"sub_block": block.idx, "is_scalar_condition": True},
    )


def append_loop(condition: Any, block: Any, is_test: bool = False) -> None:
    """Appends the op that runs `block` as long as `condition` holds, which the block computes anew."""
    reads, writes = block._outside()
    if condition.name not in writes:
        raise ValueError(
            f"the block of a loop does not write its condition `{condition.name}`, so it would run "
            "for ever: end it with `paddle.assign(new_condition, condition)`, or give a comparison "
            "`cond=`"
        )
    reads = [name for name in reads if name != condition.name]
    current_block().append_op(
        "while",
        inputs={"Condition": [condition.name], "X": reads},
        outputs={"Out": writes, "StepScopes": [_scopes()]},
        attrs={"sub_block": block.idx, "is_test": is_test},
    )


def _scopes() -> str:
    name: str = _core.unique_name("_scopes")
    current_block().create_var(name=name, type="STEP_SCOPES")
    return name


def variable_like(value: Any, block: Any) -> Any:
    """A variable of `block` that something like `value` can be written to."""
    return block.create_var(
        name=_core.unique_name("_flow"),
        shape=list(value.shape),
        dtype=value.dtype,
        lod_level=value.lod_level,
        stop_gradient=value.stop_gradient,
        type=value.type,
    )


def write(value: Any, target: Any) -> None:
    """Copies a variable into another, whose shape is left open where the two differ."""
    if not is_array(value) and tuple(value.shape) != tuple(target.shape):
        if len(value.shape) != len(target.shape):
            raise ValueError(
                f"`{target.name}` has the shape {list(target.shape)}, and in the block it becomes "
                f"{list(value.shape)}: the number of dimensions must stay"
            )
        sizes = zip(value.shape, target.shape)
        target._set_shape([mine if mine == theirs else -1 for mine, theirs in sizes])
    if value.dtype != target.dtype:
        raise TypeError(
            f"`{target.name}` is {target.dtype.name}, and in the block it becomes "
            f"{value.dtype.name}: cast one of them"
        )
    if value.name != target.name:
        ops.assign(value, _into={"Out": target})


def as_variable(value: Any) -> Any:
    """A variable for a number or a tensor; a variable as it is."""
    if isinstance(value, (bool, int, float)):
        dtype = {bool: "bool", int: "int64", float: "float32"}[type(value)]
        return ops.fill_constant(
            shape=[1],
            dtype=dtype,
            value=float(value),
            str_value=str(value) if dtype == "int64" else "",
        )
    return ops.assign(value) if isinstance(value, _core.Tensor) else value


def flatten(value: Any) -> list[Any]:
    """What lies in lists, tuples and dictionaries, one after the other."""
    if isinstance(value, dict):
        return [leaf for key in value for leaf in flatten(value[key])]
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in flatten(item)]
    return [value]


def rebuild(like: Any, leaves: Iterator[Any]) -> Any:
    """The lists, tuples and dictionaries of `like`, filled with other leaves."""
    if isinstance(like, dict):
        return {key: rebuild(item, leaves) for key, item in like.items()}
    if isinstance(like, tuple) and hasattr(like, "_fields"):
        return type(like)(*[rebuild(item, leaves) for item in like])
    if isinstance(like, (list, tuple)):
        return type(like)([rebuild(item, leaves) for item in like])
    return next(leaves)


def check_same_structure(what: str, one: Any, other: Any) -> None:
    """That two values nest in the same way."""
    if isinstance(one, dict) and isinstance(other, dict) and list(one) == list(other):
        for key in one:
            check_same_structure(what, one[key], other[key])
    elif isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        if len(one) != len(other):
            raise ValueError(f"{what}: {len(one)} values in one case and {len(other)} in the other")
        for mine, theirs in zip(one, other):
            check_same_structure(what, mine, theirs)
    elif isinstance(one, (dict, list, tuple)) or isinstance(other, (dict, list, tuple)):
        kinds = f"{type(one).__name__} in one case and {type(other).__name__} in the other"
        raise TypeError(f"{what}: {kinds}")


def check_condition(what: str, condition: Any) -> Any:
    """That a condition is one bool."""
    if isinstance(condition, (bool, _core.Tensor)):
        return condition
    if not isinstance(condition, Variable):
        raise TypeError(f"{what} must be a bool tensor, not {type(condition).__name__}")
    if condition.dtype.name != "bool":
        raise TypeError(
            f"{what} must be bool, not {condition.dtype.name}: compare it with something first"
        )
    if any(size not in (1, -1) for size in condition.shape):
        raise ValueError(f"{what} must be one truth value, not of shape {list(condition.shape)}")
    return condition


def call(function: Callable[..., Any] | None, what: str) -> Any:
    """What a function without arguments returns; nothing for none."""
    if function is None:
        return None
    if not callable(function):
        raise TypeError(f"{what} must be a function, not {type(function).__name__}")
    return function()
