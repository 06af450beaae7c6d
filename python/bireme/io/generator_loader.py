"""`DataLoader.from_generator`: batches of what Python generators yield, read ahead on a thread.

Static programs get them as feeds: by iteration, or, when the loader is not iterable, from the
executor, which asks the loaders in `program._readers` for the next feed of each run.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import _core
from .._channel import Channel, fill_in_thread
from .._errors import EOFException
from ..batch import batch as batch_reader
from .dataloader.collate import to_tensors
from .reader import as_feed, check_places, one_place

Generator = Callable[[], Iterable[Any]]


class GeneratorLoader:
    """Yields batches of a generator that is set with one of the `set_*_generator` methods.

    Up to `capacity` batches are read ahead. In static mode `feed_list` says what a batch feeds; a
    loader that is not `iterable` is driven by `start()` and `reset()` and ends with
    `core.EOFException`. Eager mode yields lists of tensors. `drop_last` drops nothing here: it
    concerns batches that do not fill all devices, and there is one.

    >>> import numpy as np
    >>> from bireme.io.generator_loader import GeneratorLoader
    >>> loader = GeneratorLoader(capacity=4, return_list=True)
    >>> loader = loader.set_sample_generator(lambda: [(1.0, 2), (3.0, 4)], batch_size=2)
    >>> [[field.tolist() for field in batch] for batch in loader]
    [[[1.0, 3.0], [2, 4]]]
    """

    def __init__(
        self,
        feed_list: Sequence[Any] | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
        use_multiprocess: bool = False,
        drop_last: bool = True,
    ) -> None:
        if not capacity or capacity <= 0:
            raise ValueError("`capacity` must say how many batches are read ahead, e.g. 64")
        self._eager = _core.in_dynamic_mode()
        if not self._eager and not feed_list:
            raise ValueError("`feed_list` is needed in static mode: the variables to feed")
        if use_multiprocess:
            raise NotImplementedError(
                "`use_multiprocess` is not here: use `bireme.io.DataLoader(..., num_workers=1)`"
            )
        if self._eager and not iterable:
            warnings.warn("a loader is always iterable in eager mode", stacklevel=3)
            iterable = True
        self._feed_list = list(feed_list or [])
        self._capacity = capacity if use_double_buffer else 1
        self._return_list = return_list or self._eager
        self._batches: Generator | None = None
        self._place: Any = None
        self._channel: Channel | None = None
        self.iterable = iterable
        if not iterable:
            _core.default_main_program().__dict__.setdefault("_readers", []).append(self)

    def set_sample_generator(
        self, reader: Generator, batch_size: int, drop_last: bool = True, places: Any = None
    ) -> GeneratorLoader:
        """Takes single samples (tuples of fields) and makes batches of `batch_size` of them."""
        return self.set_sample_list_generator(
            batch_reader(reader, batch_size, drop_last=drop_last), places
        )

    def set_sample_list_generator(self, reader: Generator, places: Any = None) -> GeneratorLoader:
        """Takes lists of samples, as `bireme.batch` makes them."""
        if self._feed_list:
            from ..fluid.data_feeder import DataFeeder

            feeder = DataFeeder(self._feed_list, place=None)
            names = [variable.name for variable in self._feed_list]
            return self.set_batch_generator(
                lambda: ([feed[name] for name in names] for feed in map(feeder.feed, reader())),
                places,
            )
        return self.set_batch_generator(
            lambda: ([list(field) for field in zip(*samples)] for samples in reader()), places
        )

    def set_batch_generator(self, reader: Generator, places: Any = None) -> GeneratorLoader:
        """Takes whole batches: lists of arrays, one for each field."""
        check_places(places)
        self._place = one_place(places)
        self._batches = reader
        return self

    def __call__(self) -> GeneratorLoader:
        """The loader itself, for `for data in loader():`."""
        return self

    def __iter__(self) -> Iterator[Any]:
        if not self.iterable:
            raise RuntimeError(
                "this loader is not iterable: call `start()` and run the program until "
                "`core.EOFException`, or make it with `iterable=True`"
            )
        return self._iterate()

    def start(self) -> None:
        """Starts reading ahead; every run of the program then takes a batch."""
        self._refuse_iterable("start")
        if self._channel is not None:
            raise RuntimeError("this loader has been started: call `reset()` first")
        self._channel = self._open()

    def reset(self) -> None:
        """Stops reading and drops what was read; needed before the next `start()`."""
        self._refuse_iterable("reset")
        if self._channel is not None:
            self._channel.close()
        self._channel = None

    def next_feed(self) -> dict[str, Any]:
        """The feed of the next run, for the executor; raises `EOFException` at the end."""
        if self._channel is None:
            raise RuntimeError("this program's data loader is not started: call `start()` first")
        for batch in self._channel:
            return as_feed(self._feed_list, batch)[0]
        raise EOFException("the data loader has no batch left: call `reset()`, then `start()`")

    def _iterate(self) -> Iterator[Any]:
        channel = self._open()
        try:
            for batch in channel:
                if self._eager:
                    yield to_tensors(batch, self._place)
                else:
                    yield batch if self._return_list else as_feed(self._feed_list, batch)
        finally:
            channel.close()

    def _open(self) -> Channel:
        if self._batches is None:
            raise RuntimeError("this loader has no data: call one of its `set_*_generator` methods")
        batches = self._batches
        channel = Channel(self._capacity)
        fill_in_thread(channel, lambda: map(_as_arrays, batches()))
        return channel

    def _refuse_iterable(self, method: str) -> None:
        if self.iterable:
            raise RuntimeError(f"`{method}()` is for loaders made with `iterable=False`")


def _as_arrays(batch: Any) -> list:
    fields = batch if isinstance(batch, (list, tuple)) else [batch]
    return [_as_array(index, field) for index, field in enumerate(fields)]


def _as_array(index: int, field: Any) -> Any:
    if isinstance(field, (np.ndarray, _core.Tensor, _core.LoDTensor)):
        return field
    try:
        array = np.asarray(field)
    except ValueError:
        array = np.empty(0, object)
    if array.dtype == object:
        raise TypeError(
            f"field {index} of a batch is no regular array, its rows differ in length: pad them, "
            "or yield a LoDTensor"
        )
    return array
