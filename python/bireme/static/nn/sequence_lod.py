"""Layers over sequences of different lengths: rows of a tensor cut up by its LoD."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import _core
from ..._names import set_public_names
from ...nn import functional
from ...tensor.arguments import sequence_of
from ..program import Variable
from .parameters import LayerNames

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


def sequence_expand_as(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Repeats each row of `x` as often as the sequence of `y` has entries.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
    ...     x = paddle.static.data("x", [None, 4])
    ...     y = paddle.static.data("y", [None, 1], lod_level=1)
    ...     paddle.static.nn.sequence_expand_as(x, y).shape
    (-1, 4)
    >>> paddle.disable_static()
    """
    return ops.sequence_expand_as(x, y)


def sequence_concat(input: Sequence[Variable], name: str | None = None) -> Variable:
    """The sequences of several inputs one after the other: the first of all, the second, and so on.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
    ...     x = paddle.static.data("x", [None, 4], lod_level=1)
    ...     paddle.static.nn.sequence_concat([x, x]).shape
    (-1, 4)
    >>> paddle.disable_static()
    """
    return ops.sequence_concat(list(sequence_of(input, "input")))


def sequence_slice(
    input: Variable, offset: Variable, length: Variable, name: str | None = None
) -> Variable:
    """Of each sequence `length` rows from `offset` on; both hold a number for each sequence.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
    ...     x = paddle.static.data("x", [None, 4], lod_level=1)
    ...     at = paddle.static.data("at", [None, 1], "int64")
    ...     paddle.static.nn.sequence_slice(x, at, at).shape
    (-1, 4)
    >>> paddle.disable_static()
    """
    return ops.sequence_slice(input, offset, length)


def sequence_pad(
    x: Variable, pad_value: Variable, maxlen: int | None = None, name: str | None = None
) -> tuple[Variable, Variable]:
    """Sequences filled up to one length, and how long they are.

    `pad_value` is one number or a whole row; `maxlen` the length, or None for that of the longest.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
    ...     x = paddle.static.data("x", [None, 4], lod_level=1)
    ...     padded, length = paddle.static.nn.sequence_pad(x, paddle.zeros([1]), 7)
    ...     padded.shape, length.shape
    ((-1, 7, 4), (-1,))
    >>> paddle.disable_static()
    """
    return ops.sequence_pad(x, pad_value, padded_length=-1 if maxlen is None else maxlen)


def sequence_unpad(x: Variable, length: Variable, name: str | None = None) -> Variable:
    """Of each row the first `length` entries, as sequences.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
    ...     x = paddle.static.data("x", [None, 7, 4])
    ...     length = paddle.static.data("length", [None], "int64")
    ...     paddle.static.nn.sequence_unpad(x, length).shape
    (-1, 4)
    >>> paddle.disable_static()
    """
    return ops.sequence_unpad(x, length)


def sequence_reshape(input: Variable, new_dim: int) -> Variable:
    """The numbers of each sequence in rows of `new_dim`.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
    ...     x = paddle.static.data("x", [None, 4], lod_level=1)
    ...     paddle.static.nn.sequence_reshape(x, 2).shape
    (-1, 2)
    >>> paddle.disable_static()
    """
    return ops.sequence_reshape(input, new_dim=new_dim)


def sequence_scatter(
    input: Variable, index: Variable, updates: Variable, name: str | None = None
) -> Variable:
    """Adds to each row of `input` its sequence of `updates`, at the columns of `index`.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
    ...     x = paddle.static.data("x", [None, 9])
    ...     ids = paddle.static.data("ids", [None, 1], "int64", lod_level=1)
    ...     updates = paddle.static.data("updates", [None, 1], lod_level=1)
    ...     paddle.static.nn.sequence_scatter(x, ids, updates).shape
    (-1, 9)
    >>> paddle.disable_static()
    """
    return ops.sequence_scatter(input, index, updates)


def sequence_enumerate(
    input: Variable, win_size: int, pad_value: int = 0, name: str | None = None
) -> Variable:
    """Each id with those that follow it in its sequence, `win_size` in all.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
    ...     ids = paddle.static.data("ids", [None, 1], "int64", lod_level=1)
    ...     paddle.static.nn.sequence_enumerate(ids, 3).shape
    (-1, 3)
    >>> paddle.disable_static()
    """
    return ops.sequence_enumerate(input, win_size=win_size, pad_value=pad_value)


def sequence_mask(
    x: Variable, maxlen: Any = None, dtype: Any = "int64", name: str | None = None
) -> Variable:
    """1 for the first `x[i]` places of row i, else 0: `paddle.nn.functional.sequence_mask`.

    >>> import bireme as paddle
    >>> paddle.static.nn.sequence_mask(paddle.to_tensor([1, 2]), 3).tolist()
    [[1, 0, 0], [1, 1, 0]]
    """
    return functional.sequence_mask(x, maxlen, dtype, name)


def sequence_reverse(x: Variable, name: str | None = None) -> Variable:
    """The rows of each sequence in reverse order.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
    ...     x = paddle.static.data("x", [None, 4], lod_level=1)
    ...     paddle.static.nn.sequence_reverse(x).shape
    (-1, 4)
    >>> paddle.disable_static()
    """
    return ops.sequence_reverse(x)


def sequence_conv(
    input: Variable,
    num_filters: int,
    filter_size: int = 3,
    filter_stride: int = 1,
    padding: bool = True,
    padding_start: int | None = None,
    bias_attr: Any = None,
    param_attr: Any = None,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """A convolution along each sequence, whose ends are padded with zeros.

    A row sees `filter_size` rows from `padding_start` on, -1 being the one before it; None puts it
    in the middle. As in Paddle, `padding` changes nothing.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
    ...     x = paddle.static.data("x", [None, 4], lod_level=1)
    ...     paddle.static.nn.sequence_conv(x, 6, act="relu").shape
    (-1, 6)
    >>> paddle.disable_static()
    """
    layer = LayerNames("sequence_conv", name)
    weight = layer.weight(param_attr, [filter_size * input.shape[1], num_filters], input.dtype)
    out = ops.sequence_conv(
        input,
        None,
        weight,
        contextStride=filter_stride,
        contextStart=-(filter_size // 2) if padding_start is None else padding_start,
        contextLength=filter_size,
    )
    bias = layer.bias(bias_attr, [num_filters], input.dtype)
    if bias is not None:
        out = layer.apply("elementwise_add", out, bias, axis=1)
    return layer.activate(out, act)


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
