"""Tensors whose rows are cut into sequences of different lengths."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from .. import _core
from .._missing import missing_names

LoDTensor = _core.LoDTensor


def create_lod_tensor(
    data: Any, recursive_seq_lens: Sequence[Sequence[int]], place: Any = None
) -> LoDTensor:
    """A tensor with the lengths of its sequences, outermost level first.

    `data` is an array of all rows, a tensor, or a list with one list of ids for each sequence.

    >>> import numpy as np
    >>> rows = np.zeros([5, 1], "int64")
    >>> paddle.fluid.create_lod_tensor(rows, [[2, 3]], paddle.CPUPlace()).lod()
    [[0, 2, 5]]
    """
    if isinstance(data, list):
        lengths = [len(sequence) for sequence in data]
        if list(recursive_seq_lens[-1]) != lengths:
            raise ValueError(f"the lists have lengths {lengths}, not {recursive_seq_lens[-1]}")
        data = np.concatenate([np.asarray(sequence) for sequence in data]).reshape(-1, 1)
    rows = np.array(data)
    _check_lengths(recursive_seq_lens, len(rows))
    tensor = LoDTensor()
    tensor.set(rows, place)
    tensor.set_lod([[0, *accumulate(lengths)] for lengths in recursive_seq_lens])
    return tensor


def create_random_int_lodtensor(
    recursive_seq_lens: Sequence[Sequence[int]],
    base_shape: Sequence[int],
    place: Any,
    low: int,
    high: int,
) -> LoDTensor:
    """Random integers from `low` to `high` in rows of `base_shape`.

    >>> paddle.fluid.create_random_int_lodtensor([[2, 3]], [1], None, 0, 9).shape()
    [5, 1]
    """
    shape = [sum(recursive_seq_lens[-1]), *base_shape]
    rows = np.random.randint(low, high + 1, shape, "int64")
    return create_lod_tensor(rows, recursive_seq_lens, place)


def _check_lengths(levels: Sequence[Sequence[int]], rows: int) -> None:
    counts = [len(level) for level in levels[1:]] + [rows]
    for depth, (level, count) in enumerate(zip(levels, counts)):
        if sum(level) != count:
            what = "rows" if depth == len(levels) - 1 else "sequences of the next level"
            raise ValueError(
                f"the lengths of level {depth} sum to {sum(level)}, but there are {count} {what}"
            )


__getattr__ = missing_names(__name__)
