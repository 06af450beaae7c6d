"""Fetchers: from the indices of a batch, or from a stream, to one collated batch."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

# What `fetch` returns when a stream has no batch left.
DRAINED = object()


class MapFetcher:
    """Batches of a data set with an index.

    >>> MapFetcher("abc", True, "".join).fetch([2, 0])
    'ca'
    """

    def __init__(self, dataset: Any, batched: bool, collate_fn: Callable) -> None:
        self._dataset = dataset
        self._batched = batched
        self._collate = collate_fn

    def fetch(self, indices: Any) -> Any:
        """The batch of a list of indices, or the sample of one index when there are no batches."""
        dataset = self._dataset
        if not self._batched:
            return self._collate(dataset[indices])
        return self._collate([dataset[index] for index in indices])


class IterableFetcher:
    """Batches of a stream, from its start at the first fetch to its end.

    >>> fetcher = IterableFetcher("abc", 2, False, "".join)
    >>> fetcher.fetch(None), fetcher.fetch(None), fetcher.fetch(None) is DRAINED
    ('ab', 'c', True)
    """

    def __init__(
        self, dataset: Any, batch_size: int | None, drop_last: bool, collate_fn: Callable
    ) -> None:
        self._samples = iter(dataset)
        self._batch_size = batch_size
        self._drop_last = drop_last
        self._collate = collate_fn

    def fetch(self, _: Any) -> Any:
        """The next batch, or `DRAINED`."""
        if self._batch_size is None:
            sample = next(self._samples, DRAINED)
            return sample if sample is DRAINED else self._collate(sample)
        samples = list(itertools.islice(self._samples, self._batch_size))
        if not samples or (self._drop_last and len(samples) < self._batch_size):
            return DRAINED
        return self._collate(samples)
