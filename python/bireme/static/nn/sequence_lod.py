"""Layers over sequences of different lengths: rows of a tensor cut up by its LoD."""

from __future__ import annotations

from ... import _core
from ..._names import set_public_names
from ..program import Variable

ops = _core.ops

_POOL_TYPES = ("average", "sum", "sqrt", "max", "last", "first")


def sequence_pool(
    input: Variable, pool_type: str, is_test: bool = False, pad_value: float = 0.0
) -> Variable:
    """One row for each sequence: its average, sum, sqrt (sum over root of length), max, last or first.

    An empty sequence gives `pad_value`.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program()):
    ...     x = paddle.static.data("x", [None, 8], lod_level=1)
    ...     paddle.static.nn.sequence_pool(x, "sum").shape
    (-1, 8)
    >>> paddle.disable_static()
    """
    if not isinstance(pool_type, str) or pool_type.lower() not in _POOL_TYPES:
        raise ValueError(f"`pool_type` must be one of {', '.join(_POOL_TYPES)}, not {pool_type!r}")
    return ops.sequence_pool(
        input, pooltype=pool_type.upper(), is_test=is_test, pad_value=pad_value, _outputs=("Out",)
    )


def sequence_first_step(input: Variable) -> Variable:
    """The first row of each sequence.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program()):
    ...     x = paddle.static.data("x", [None, 8], lod_level=1)
    ...     paddle.static.nn.sequence_first_step(x).shape
    (-1, 8)
    >>> paddle.disable_static()
    """
    return sequence_pool(input, "first")


def sequence_last_step(input: Variable) -> Variable:
    """The last row of each sequence.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program()):
    ...     x = paddle.static.data("x", [None, 8], lod_level=1)
    ...     paddle.static.nn.sequence_last_step(x).shape
    (-1, 8)
    >>> paddle.disable_static()
    """
    return sequence_pool(input, "last")


def sequence_softmax(input: Variable, use_cudnn: bool = False, name: str | None = None) -> Variable:
    """Softmax within each sequence of a column; `use_cudnn` has no meaning here.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program()):
    ...     x = paddle.static.data("x", [None, 1], lod_level=1)
    ...     paddle.static.nn.sequence_softmax(x).shape
    (-1, 1)
    >>> paddle.disable_static()
    """
    return ops.sequence_softmax(input)


def sequence_expand(
    x: Variable, y: Variable, ref_level: int = -1, name: str | None = None
) -> Variable:
    """Repeats each sequence of `x` as often as level `ref_level` of `y`'s LoD says.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program()):
    ...     x = paddle.static.data("x", [None, 4])
    ...     y = paddle.static.data("y", [None, 1], lod_level=1)
    ...     paddle.static.nn.sequence_expand(x, y).shape
    (-1, 4)
    >>> paddle.disable_static()
    """
    return ops.sequence_expand(x, y, ref_level=ref_level)


def continuous_value_model(input: Variable, cvm: Variable, use_cvm: bool = True) -> Variable:
    """The show and click columns in front of an embedding: as logarithms, or cut off.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program()):
    ...     x = paddle.static.data("x", [None, 11])
    ...     cvm = paddle.static.data("cvm", [None, 2])
    ...     paddle.static.nn.continuous_value_model(x, cvm, False).shape
    (-1, 9)
    >>> paddle.disable_static()
    """
    return ops.cvm(input, cvm, use_cvm=use_cvm)


set_public_names(__name__)
