"""Layers over sequences of different lengths: those that 2.x kept, and those that it has not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import _core
from ...nn.functional import sequence_mask
from ...static.nn.sequence_lod import (
    sequence_concat,
    sequence_conv,
    sequence_enumerate,
    sequence_expand,
    sequence_expand_as,
    sequence_first_step,
    sequence_last_step,
    sequence_pad,
    sequence_pool,
    sequence_reshape,
    sequence_reverse,
    sequence_scatter,
    sequence_slice,
    sequence_softmax,
    sequence_unpad,
)

Variable = Any
_ops = _core.ops

__all__ = [
    "filter_by_instag",
    "lod_append",
    "lod_reset",
    "sequence_concat",
    "sequence_conv",
    "sequence_enumerate",
    "sequence_erase",
    "sequence_expand",
    "sequence_expand_as",
    "sequence_first_step",
    "sequence_last_step",
    "sequence_mask",
    "sequence_pad",
    "sequence_pool",
    "sequence_reshape",
    "sequence_reverse",
    "sequence_scatter",
    "sequence_slice",
    "sequence_softmax",
    "sequence_unpad",
]


def sequence_erase(input: Variable, tokens: Sequence[int], name: str | None = None) -> Variable:
    """Sequences of ids without those in `tokens`.

    >>> ids = paddle.fluid.layers.data("ids", [1], dtype="int64", lod_level=1)
    >>> paddle.fluid.layers.sequence_erase(ids, [0, 7]).shape
    (-1, 1)
    """
    return _ops.sequence_erase(input, tokens=list(tokens))


def lod_reset(
    x: Variable, y: Variable | None = None, target_lod: Sequence[int] | None = None
) -> Variable:
    """The rows of `x` cut into the sequences of `y`, or those whose offsets it or `target_lod` holds.

    >>> x = paddle.fluid.layers.data("x", [4])
    >>> paddle.fluid.layers.lod_reset(x, target_lod=[0, 2, 6]).lod_level
    1
    """
    if y is not None:
        return _ops.lod_reset(x, y)
    if target_lod is None:
        raise ValueError("`lod_reset` needs `y` or `target_lod`")
    return _ops.lod_reset(x, target_lod=list(target_lod))


def lod_append(x: Variable, level: Variable | Sequence[int]) -> Variable:
    """One more level of sequences, inside of those that `x` has: offsets, or a variable with them.

    >>> x = paddle.fluid.layers.data("x", [4], lod_level=1)
    >>> paddle.fluid.layers.lod_append(x, [0, 1, 2, 3]).lod_level
    2
    """
    if isinstance(level, (list, tuple)):
        return _ops.lod_reset(x, target_lod=list(level), append=True)
    return _ops.lod_reset(x, level, append=True)


def filter_by_instag(
    ins: Variable,
    ins_tag: Variable,
    filter_tag: Variable,
    is_lod: bool,
    out_val_if_empty: int = 0,
) -> list[Variable]:
    """The samples that have one of the tags in `filter_tag`, and what each counts in the loss.

    `ins_tag` has the tags of each sample. Where none stays there is one row of `out_val_if_empty`,
    which counts 0; otherwise all count 1.

    >>> x = paddle.fluid.layers.data("x", [4], lod_level=1)
    >>> tags = paddle.fluid.layers.data("tags", [1], dtype="int64", lod_level=1)
    >>> wanted = paddle.fluid.layers.data("wanted", [1], dtype="int64")
    >>> [each.shape for each in paddle.fluid.layers.filter_by_instag(x, tags, wanted, True)]
    [(-1, 4), (-1, 1)]
    """
    out, weight, _ = _ops.filter_by_instag(
        ins, ins_tag, filter_tag, is_lod=is_lod, out_val_if_empty=out_val_if_empty
    )
    return [out, weight]
