"""Batch samplers: which samples make up each batch, of one trainer or of one among many."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ..._names import set_public_names
from .dataset import IterableDataset
from .sampler import RandomSampler, Sampler, SequenceSampler


class BatchSampler(Sampler):
    """Yields lists of `batch_size` indices of a data set, or of a sampler.

    >>> from bireme.io import BatchSampler
    >>> list(BatchSampler("abc", batch_size=2))
    [[0, 1], [2]]
    """

    def __init__(
        self,
        dataset: Any = None,
        sampler: Sampler | None = None,
        shuffle: bool = False,
        batch_size: int = 1,
        drop_last: bool = False,
    ) -> None:
        if (dataset is None) == (sampler is None):
            raise ValueError("`BatchSampler` needs either `dataset` or `sampler`, not both")
        if isinstance(dataset, IterableDataset):
            raise TypeError("`BatchSampler` can't index an IterableDataset")
        if sampler is not None and not isinstance(sampler, Sampler):
            raise TypeError(f"`sampler` must be a `Sampler`, got {type(sampler).__name__}")
        if sampler is not None and shuffle:
            raise ValueError("`shuffle` goes with `dataset`: a `sampler` has its own order")
        _check_flags(batch_size, shuffle=shuffle, drop_last=drop_last)
        if sampler is None:
            sampler = RandomSampler(dataset) if shuffle else SequenceSampler(dataset)
        super().__init__(dataset)
        self.sampler: Any = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        return _batches(self.sampler, self.batch_size, self.drop_last)

    def __len__(self) -> int:
        return _count(len(self.sampler), self.batch_size, self.drop_last)


class DistributedBatchSampler(BatchSampler):
    """Deals the batches of a data set out to `num_replicas` trainers; this one has `rank`.

    The indices are repeated from the start until every trainer has the same number. With `shuffle`
    the order depends on the epoch only (`set_epoch`), so that all trainers agree on it.

    >>> from bireme.io import DistributedBatchSampler
    >>> list(DistributedBatchSampler("abcde", 2, num_replicas=2, rank=1))
    [[2, 3], [0]]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = False,
        drop_last: bool = False,
    ) -> None:
        _check_flags(batch_size, shuffle=shuffle, drop_last=drop_last)
        Sampler.__init__(self, dataset)
        self.dataset = dataset
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.nranks = _world_size() if num_replicas is None else num_replicas
        self.local_rank = _rank() if rank is None else rank
        if not isinstance(self.nranks, int) or self.nranks <= 0:
            raise ValueError(f"`num_replicas` must be a positive whole number, got {self.nranks}")
        if not isinstance(self.local_rank, int) or not 0 <= self.local_rank < self.nranks:
            raise ValueError(
                f"`rank` must be from 0 to {self.nranks - 1} among {self.nranks} replicas, "
                f"got {self.local_rank}"
            )
        self.epoch = 0
        self.num_samples = math.ceil(len(dataset) / self.nranks)
        self.total_size = self.num_samples * self.nranks

    def __iter__(self) -> Iterator[list[int]]:
        indices = np.resize(np.arange(len(self.dataset)), self.total_size).tolist()
        if self.shuffle:
            np.random.RandomState(self.epoch).shuffle(indices)
            self.epoch += 1
        return _batches(self._share(indices), self.batch_size, self.drop_last)

    def __len__(self) -> int:
        return _count(self.num_samples, self.batch_size, self.drop_last)

    def set_epoch(self, epoch: int) -> None:
        """Sets the number that the next shuffled order is drawn from.

        >>> sampler = DistributedBatchSampler("abcd", 2, num_replicas=2, rank=0, shuffle=True)
        >>> sampler.set_epoch(3)
        >>> first = list(sampler)
        >>> sampler.set_epoch(3)
        >>> first == list(sampler)
        True
        """
        self.epoch = epoch

    def _share(self, indices: list[int]) -> list[int]:
        # Whole rounds deal out one batch per trainer; what is left is cut into equal parts.
        per_round = self.batch_size * self.nranks
        whole = len(indices) - len(indices) % per_round
        share: list[int] = []
        for start in range(self.local_rank * self.batch_size, whole, per_round):
            share.extend(indices[start : start + self.batch_size])
        last = (len(indices) - whole) // self.nranks
        start = whole + self.local_rank * last
        return share + indices[start : start + last]


def _batches(indices: Iterable[int], size: int, drop_last: bool) -> Iterator[list[int]]:
    batch: list[int] = []
    for index in indices:
        batch.append(index)
        if len(batch) == size:
            yield batch
            batch = []
    if batch and not drop_last:
        yield batch


def _count(samples: int, size: int, drop_last: bool) -> int:
    return samples // size if drop_last else -(-samples // size)


def _check_flags(batch_size: Any, **flags: Any) -> None:
    if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
        raise ValueError(f"`batch_size` must be a positive whole number, got {batch_size!r}")
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise TypeError(f"`{name}` must be True or False, got {value!r}")


def _world_size() -> int:
    from ... import distributed

    return distributed.get_world_size()


def _rank() -> int:
    from ... import distributed

    return distributed.get_rank()


set_public_names(__name__)
