"""Collation: a list of samples becomes one batch of arrays, and arrays become tensors.

Worker processes collate with numpy alone; tensors are made in the process that trains.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np

from ... import _core


def default_collate_fn(batch: Sequence[Any]) -> Any:
    """Stacks samples field by field: numbers, arrays and tensors into arrays, text into lists.

    >>> default_collate_fn([(1, "a"), (2, "b")])
    [array([1, 2]), ['a', 'b']]
    """
    sample = batch[0]
    if isinstance(sample, np.ndarray):
        return stack_arrays(batch)
    if isinstance(sample, Number):
        return np.array(batch)
    if isinstance(sample, _core.Tensor):
        return stack_arrays([np.asarray(tensor) for tensor in batch])
    if isinstance(sample, (str, bytes)):
        return list(batch)
    if isinstance(sample, Mapping):
        return {key: default_collate_fn([fields[key] for fields in batch]) for key in sample}
    if isinstance(sample, Sequence):
        lengths = {len(fields) for fields in batch}
        if len(lengths) > 1:
            raise RuntimeError(
                f"samples of one batch have different numbers of fields: {sorted(lengths)}"
            )
        return [default_collate_fn(fields) for fields in zip(*batch)]
    raise TypeError(
        "a sample may hold tensors, numpy arrays, dicts, lists, numbers and text, "
        f"not {type(sample).__name__}: give the `DataLoader` a `collate_fn`"
    )


def default_convert_fn(batch: Any) -> Any:
    """What stands for collation when there are no batches: the sample as it is, tuples as lists.

    >>> default_convert_fn((1, {"a": (2,)}))
    [1, {'a': [2]}]
    """
    return _map_leaves(batch, lambda leaf: leaf)


def stack_arrays(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """What `numpy.stack` makes, but `numpy.array` is several times faster at it.

    >>> stack_arrays([np.zeros(2), np.ones(2)]).tolist()
    [[0.0, 0.0], [1.0, 1.0]]
    """
    shape = arrays[0].shape
    try:
        stacked = np.array(arrays)
    except ValueError:
        stacked = np.empty(0)
    if stacked.shape == (len(arrays), *shape):
        return stacked
    other = next(position for position, array in enumerate(arrays) if array.shape != shape)
    raise ValueError(
        f"samples of one batch have different shapes: {list(shape)} in sample 0, "
        f"{list(arrays[other].shape)} in sample {other}: pad them, or give a `collate_fn`"
    )


def to_tensors(batch: Any, place: Any = None) -> Any:
    """The batch with tensors in place of arrays, for eager mode: at `place`, or on the current device.

    They go to a GPU by way of page-locked memory, and nothing waits for the copies.

    >>> to_tensors([np.zeros(2), "text"])[1]
    'text'
    """
    return _map_leaves(batch, functools.partial(_tensor_of, place=place))


def to_arrays(batch: Any) -> Any:
    """The batch with arrays in place of tensors, for feeding a static program.

    >>> to_arrays((np.zeros(2), 1))
    [array([0., 0.]), 1]
    """
    return _map_leaves(batch, _array_of)


def _map_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, (np.ndarray, _core.Tensor, str, bytes)):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _map_leaves(field, change) for key, field in value.items()}
    if isinstance(value, Sequence):
        return [_map_leaves(field, change) for field in value]
    return value


def _tensor_of(leaf: Any, place: Any) -> Any:
    return _core.to_tensor(leaf, place=place) if isinstance(leaf, np.ndarray) else leaf


def _array_of(leaf: Any) -> Any:
    return leaf.numpy() if isinstance(leaf, _core.Tensor) else leaf
