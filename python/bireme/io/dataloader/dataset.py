"""Data sets: by index (`Dataset`) or as a stream (`IterableDataset`), and what combines them."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ... import _core
from ..._names import set_public_names
from .sampler import random_order


class NoLength(RuntimeError, ValueError, TypeError):
    """A stream has no length: an error of Paddle's types and the one that lets `list()` go on."""


class Dataset:
    """What data sets by index derive from: define `__getitem__` and `__len__`.

    >>> from bireme.io import Dataset
    >>> class Squares(Dataset):
    ...     def __getitem__(self, idx):
    ...         return idx * idx
    ...     def __len__(self):
    ...         return 3
    >>> Squares()[2]
    4
    """

    def __init__(self) -> None:
        pass

    def __getitem__(self, idx: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define `__getitem__(self, idx)`")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} must define `__len__(self)`")


class IterableDataset(Dataset):
    """What streams derive from: define `__iter__`; `get_worker_info()` says which share to yield.

    >>> from bireme.io import IterableDataset
    >>> class Count(IterableDataset):
    ...     def __iter__(self):
    ...         return iter(range(3))
    >>> list(Count())
    [0, 1, 2]
    """

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} must define `__iter__(self)`")

    def __getitem__(self, idx: int) -> Any:
        raise RuntimeError(f"{type(self).__name__} is an IterableDataset: it has no sample {idx}")

    def __len__(self) -> int:
        raise NoLength(f"{type(self).__name__} is an IterableDataset: it has no length")


class TensorDataset(Dataset):
    """Tensors of one length; a sample is a tuple of one row of each.

    >>> import bireme
    >>> from bireme.io import TensorDataset
    >>> pairs = TensorDataset([bireme.to_tensor([[1.0], [2.0]]), bireme.to_tensor([3, 4])])
    >>> len(pairs)
    2
    """

    def __init__(self, tensors: Sequence[Any]) -> None:
        if not _core.in_dynamic_mode():
            raise RuntimeError("`TensorDataset` works in eager mode only: call `disable_static()`")
        lengths = [tensor.shape[0] for tensor in tensors]
        if not lengths or len(set(lengths)) > 1:
            raise ValueError(f"the tensors of a `TensorDataset` differ in length: {lengths}")
        self.tensors = tensors

    def __getitem__(self, index: int) -> tuple:
        # Rows are cut by numpy: a forked worker must not use the engine's threads.
        rows = (np.asarray(tensor)[index, ...] for tensor in self.tensors)
        return tuple(_core.to_tensor(row) for row in rows)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]


class ComposeDataset(Dataset):
    """Puts the fields of several data sets of one length side by side.

    >>> from bireme.io import ComposeDataset, Subset
    >>> ComposeDataset([Subset("ab", [0, 1]), Subset([(1, 2), (3, 4)], [0, 1])])[1]
    ('b', 3, 4)
    """

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = _indexed(datasets, "ComposeDataset")
        lengths = [len(dataset) for dataset in self.datasets]
        if len(set(lengths)) > 1:
            raise ValueError(f"the data sets of a `ComposeDataset` differ in length: {lengths}")

    def __len__(self) -> int:
        return len(self.datasets[0])

    def __getitem__(self, idx: int) -> tuple:
        samples = (dataset[idx] for dataset in self.datasets)
        fields = (s if isinstance(s, (list, tuple)) else (s,) for s in samples)
        return tuple(itertools.chain.from_iterable(fields))


class ChainDataset(IterableDataset):
    """Yields the samples of several streams, one stream after another.

    >>> from bireme.io import ChainDataset, IterableDataset
    >>> class Two(IterableDataset):
    ...     def __iter__(self):
    ...         return iter([1, 2])
    >>> list(ChainDataset([Two(), Two()]))
    [1, 2, 1, 2]
    """

    def __init__(self, datasets: Iterable[IterableDataset]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueError("`ChainDataset` needs at least one data set")
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise TypeError(
                    f"`ChainDataset` takes IterableDatasets only, got {type(dataset).__name__}"
                )

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self.datasets)


class ConcatDataset(Dataset):
    """Puts data sets one behind the other.

    >>> from bireme.io import ConcatDataset, Subset
    >>> both = ConcatDataset([Subset("ab", [0, 1]), Subset("cd", [0, 1])])
    >>> both[2], both[-1], len(both)
    ('c', 'd', 4)
    """

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = _indexed(datasets, "ConcatDataset")
        self.cumulative_sizes = list(itertools.accumulate(map(len, self.datasets)))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> Any:
        index = idx + len(self) if idx < 0 else idx
        if not 0 <= index < len(self):
            raise IndexError(f"sample {idx} of a `ConcatDataset` of {len(self)} samples")
        number = bisect.bisect_right(self.cumulative_sizes, index)
        before = self.cumulative_sizes[number - 1] if number else 0
        return self.datasets[number][index - before]


class Subset(Dataset):
    """The samples of a data set at given indices.

    >>> from bireme.io import Subset
    >>> Subset("abcd", [3, 1])[0]
    'd'
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, idx: int) -> Any:
        return self.dataset[self.indices[idx]]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Any, lengths: Sequence[int], generator: Iterator[int] | None = None
) -> list[Subset]:
    """Deals the samples out at random into subsets of the given lengths.

    `generator` must be None, as Paddle does not use it either; `bireme.seed` sets the draw.

    >>> from bireme.io import random_split
    >>> [len(part) for part in random_split(range(10), [7, 3])]
    [7, 3]
    """
    if generator is not None:
        raise NotImplementedError("`random_split` takes no generator: use `bireme.seed`")
    if sum(lengths) != len(dataset):
        raise ValueError(
            f"the lengths {list(lengths)} add up to {sum(lengths)}, "
            f"but the data set has {len(dataset)} samples"
        )
    indices = random_order(len(dataset))
    ends = itertools.accumulate(lengths)
    return [Subset(dataset, indices[end - n : end]) for end, n in zip(ends, lengths)]


def _indexed(datasets: Iterable[Dataset], where: str) -> list[Dataset]:
    datasets = list(datasets)
    if not datasets:
        raise ValueError(f"`{where}` needs at least one data set")
    for dataset in datasets:
        if isinstance(dataset, IterableDataset) or not isinstance(dataset, Dataset):
            raise TypeError(
                f"`{where}` takes data sets with an index only, got {type(dataset).__name__}"
            )
    return datasets


set_public_names(__name__, but="NoLength")
