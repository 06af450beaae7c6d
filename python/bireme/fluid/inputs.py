"""`fluid.data`, `fluid.embedding` and `fluid.one_hot`: the later spellings of 1.x's layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _core
from ..static.input import declare_feed
from ..static.nn import embedding
from .framework import static_by_default

Variable = Any

__all__ = ["data", "embedding", "memory_optimize", "one_hot", "release_memory"]


def data(
    name: str, shape: Sequence[int | None], dtype: Any = "float32", lod_level: int = 0
) -> Variable:
    """Declares a variable that is fed by name; the batch is part of `shape`, as None or -1.

    >>> paddle.fluid.data("x", [None, 13]).shape
    (-1, 13)
    """
    static_by_default()
    return declare_feed(name, shape, dtype, lod_level)


def one_hot(input: Variable, depth: int, allow_out_of_range: bool = False) -> Variable:
    """A 1 in the column that each id names, in a new last dimension.

    >>> paddle.fluid.one_hot(paddle.to_tensor([1]), 3).tolist()
    [[0.0, 1.0, 0.0]]
    """
    return _core.ops.one_hot_v2(input, depth=depth, allow_out_of_range=allow_out_of_range)


def memory_optimize(
    input_program: Any,
    skip_opt_set: Any = None,
    print_log: bool = False,
    level: int = 0,
    skip_grads: bool = True,
) -> None:
    """Does nothing, as in the last versions of 1.x: memory is always shared where it can be.

    >>> paddle.fluid.memory_optimize(paddle.fluid.default_main_program()) is None
    True
    """


def release_memory(input_program: Any, skip_opt_set: Any = None) -> None:
    """Does nothing, see `memory_optimize`.

    >>> paddle.fluid.release_memory(paddle.fluid.default_main_program()) is None
    True
    """
