"""`DataLoader`: batches of a data set, made in this process or in worker processes.

This module checks arguments and shapes what a batch looks like in each mode; the work is done in
`dataloader.fetcher` (here) and `dataloader.pool` (worker processes).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .. import _core
from .dataloader.batch_sampler import BatchSampler
from .dataloader.collate import default_collate_fn, default_convert_fn, to_arrays, to_tensors
from .dataloader.dataset import IterableDataset, NoLength
from .dataloader.fetcher import DRAINED, IterableFetcher, MapFetcher


class DataLoader:
    """Iterates over a data set in batches, as often as it is asked to.

    In eager mode a batch is what `collate_fn` returns with tensors in place of arrays. In static
    mode it holds arrays; with `feed_list` and `return_list=False` it is `[{name: array}]`, ready for
    `Executor.run(feed=...)`.

    `num_workers` processes make `prefetch_factor` batches each ahead of time; without them a batch
    is made when it is asked for. `timeout` is in seconds, 0 waits for ever. `persistent_workers` keeps
    the processes from one epoch to the next. `places` may name one place; without it batches go to
    the current device: to a GPU by way of page-locked memory, and nothing waits for the copies (so
    `use_buffer_reader` has no meaning).

    >>> import numpy as np
    >>> from bireme.io import DataLoader, Dataset
    >>> class Squares(Dataset):
    ...     def __getitem__(self, idx):
    ...         return np.float32(idx), idx * idx
    ...     def __len__(self):
    ...         return 5
    >>> [labels.tolist() for _, labels in DataLoader(Squares(), batch_size=2)]
    [[0, 1], [4, 9], [16]]
    """

    def __init__(
        self,
        dataset: Any,
        feed_list: Sequence[Any] | None = None,
        places: Any = None,
        return_list: bool = True,
        batch_sampler: Any = None,
        batch_size: int | None = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        collate_fn: Callable[[list], Any] | None = None,
        num_workers: int = 0,
        use_buffer_reader: bool = True,
        prefetch_factor: int = 2,
        use_shared_memory: bool = True,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        persistent_workers: bool = False,
    ) -> None:
        _check(num_workers, prefetch_factor, timeout, places)
        if not return_list and feed_list is None and not _core.in_dynamic_mode():
            raise ValueError("`return_list=False` needs `feed_list`: the variables to feed")
        self.dataset = dataset
        self.feed_list = feed_list
        self._place = one_place(places)
        self.return_list = return_list
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor
        self.use_shared_memory = use_shared_memory
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.drop_last = drop_last
        self._streams = isinstance(dataset, IterableDataset)
        self.batch_sampler = self._sampler(batch_sampler, batch_size, shuffle)
        self.batch_size = None if batch_sampler is not None else batch_size
        batched = self.batch_sampler is not None or (self._streams and batch_size is not None)
        self.collate_fn = collate_fn or (default_collate_fn if batched else default_convert_fn)
        self._persistent = persistent_workers
        self._pool: Any = None

    def __len__(self) -> int:
        if self._streams:
            raise NoLength("a `DataLoader` of an IterableDataset has no length")
        return len(self.dataset if self.batch_sampler is None else self.batch_sampler)

    def __iter__(self) -> Iterator[Any]:
        return self._run(self._batches_here if self.num_workers == 0 else self._batches_of_workers)

    def __call__(self) -> Iterator[Any]:
        """The same as iterating, for `for data in loader():`."""
        return iter(self)

    @staticmethod
    def from_generator(
        feed_list: Sequence[Any] | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
        use_multiprocess: bool = False,
        drop_last: bool = True,
    ) -> Any:
        """A loader of what generators yield, see `bireme.io.generator_loader.GeneratorLoader`.

        >>> import numpy as np
        >>> loader = DataLoader.from_generator(capacity=2, return_list=True)
        >>> def batches():
        ...     yield [np.zeros((2, 3), "float32")]
        >>> [batch[0].shape for batch in loader.set_batch_generator(batches)]
        [[2, 3]]
        """
        from .generator_loader import GeneratorLoader

        return GeneratorLoader(
            feed_list,
            capacity,
            use_double_buffer,
            iterable,
            return_list,
            use_multiprocess,
            drop_last,
        )

    def _sampler(self, batch_sampler: Any, batch_size: int | None, shuffle: bool) -> Any:
        if self._streams and (shuffle or batch_sampler is not None):
            raise ValueError(
                "an IterableDataset has its own order: leave out `shuffle` and `batch_sampler`"
            )
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or self.drop_last:
                raise ValueError(
                    "`batch_size`, `shuffle` and `drop_last` are up to the `batch_sampler`"
                )
            return batch_sampler
        if batch_size is None:
            return None
        if self._streams:
            if batch_size <= 0:
                raise ValueError(f"`batch_size` must be a positive whole number, got {batch_size}")
            return None
        return BatchSampler(
            self.dataset, shuffle=shuffle, batch_size=batch_size, drop_last=self.drop_last
        )

    def _run(self, batches: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        if _core.in_dynamic_mode():
            return map(functools.partial(to_tensors, place=self._place), batches())
        if self.return_list:
            return map(to_arrays, batches())
        return map(functools.partial(as_feed, self.feed_list or []), batches())

    def _indices(self) -> Any:
        if self._streams:
            return itertools.repeat(None)
        return range(len(self.dataset)) if self.batch_sampler is None else self.batch_sampler

    def _make_fetcher(self) -> Any:
        if self._streams:
            return IterableFetcher(self.dataset, self.batch_size, self.drop_last, self.collate_fn)
        return MapFetcher(self.dataset, self.batch_sampler is not None, self.collate_fn)

    def _batches_here(self) -> Iterator[Any]:
        fetch = self._make_fetcher().fetch
        for indices in self._indices():
            batch = fetch(indices)
            if batch is DRAINED:
                return
            yield batch

    def _batches_of_workers(self) -> Iterator[Any]:
        from .dataloader.pool import Pool

        pool = self._pool or Pool(self, self._make_fetcher)
        self._pool = pool if self._persistent else None
        finished = False
        try:
            yield from pool.batches(self._indices())
            finished = True
        except GeneratorExit:
            finished = True
            raise
        finally:
            # A pool that has failed is not used again.
            if not (self._persistent and finished):
                self._pool = None
                pool.close()


def as_feed(feed_list: Sequence[Any], batch: Any) -> list[dict[str, Any]]:
    """A batch as Paddle hands it to `Executor.run`: a list of one dict, for the one place.

    >>> as_feed([], [])
    [{}]
    """
    arrays = to_arrays(batch)
    if not isinstance(arrays, list):
        arrays = [arrays]
    if len(arrays) != len(feed_list):
        names = ", ".join(f"`{variable.name}`" for variable in feed_list)
        raise ValueError(
            f"a batch has {len(arrays)} fields but `feed_list` has {len(feed_list)}: {names}"
        )
    return [{variable.name: array for variable, array in zip(feed_list, arrays)}]


def check_places(places: Any) -> None:
    """Refuses more than one place: batches are not split over devices here."""
    if isinstance(places, (list, tuple)) and len(places) > 1:
        raise NotImplementedError(
            f"a loader feeds one place, got {len(places)}: start one process for each device"
        )


def one_place(places: Any) -> Any:
    """The place that `places` names, if it names one.

    >>> one_place(["cpu"])
    Place(cpu)
    """
    from ..nn.layer.state import device_place

    return device_place(
        places[0] if isinstance(places, (list, tuple)) and places else places or None
    )


def _check(num_workers: int, prefetch_factor: int, timeout: float, places: Any) -> None:
    if num_workers < 0:
        raise ValueError(f"`num_workers` must not be negative, got {num_workers}")
    if prefetch_factor <= 0:
        raise ValueError(f"`prefetch_factor` must be positive, got {prefetch_factor}")
    if timeout < 0:
        raise ValueError(f"`timeout` must not be negative, got {timeout}")
    check_places(places)
