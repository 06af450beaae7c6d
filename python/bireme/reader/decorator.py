"""Reader decorators that need at most one thread.

An exception inside a reader always reaches the code that reads, with its own traceback.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .._channel import Channel, fill_in_thread
from .._names import set_public_names

Reader = Callable[[], Iterable[Any]]

_MISSING = object()


class ComposeNotAligned(ValueError):
    """The readers given to `compose` do not have the same number of samples."""


def cache(reader: Reader) -> Reader:
    """Reads everything once, now, and serves it from memory afterwards.

    >>> list(cache(lambda: range(3))())
    [0, 1, 2]
    """
    samples = tuple(reader())
    return lambda: iter(samples)


def map_readers(func: Callable[..., Any], *readers: Reader) -> Reader:
    """Yields `func` of one sample of each reader.

    >>> list(map_readers(lambda a, b: a + b, lambda: range(3), lambda: range(3))())
    [0, 2, 4]
    """
    return lambda: map(func, *[reader() for reader in readers])


def shuffle(reader: Reader, buf_size: int) -> Reader:
    """Fills a buffer of `buf_size` samples, yields it in random order (`random.seed`), goes on.

    >>> sorted(shuffle(lambda: range(4), buf_size=2)())
    [0, 1, 2, 3]
    """

    def shuffled() -> Iterator[Any]:
        buffer: list = []
        for sample in reader():
            buffer.append(sample)
            if len(buffer) >= buf_size:
                random.shuffle(buffer)
                yield from buffer
                buffer = []
        random.shuffle(buffer)
        yield from buffer

    return shuffled


def chain(*readers: Reader) -> Reader:
    """Yields all samples of the first reader, then all of the second, and so on.

    >>> list(chain(lambda: range(2), lambda: range(2))())
    [0, 1, 0, 1]
    """
    return lambda: itertools.chain(*[reader() for reader in readers])


def compose(*readers: Reader, check_alignment: bool = True) -> Reader:
    """Yields flat tuples made of one sample of each reader.

    With `check_alignment` readers of different lengths raise `ComposeNotAligned`; without it the
    shortest one ends the others.

    >>> list(compose(lambda: [1, 2], lambda: [(3, 4), (5, 6)])())
    [(1, 3, 4), (2, 5, 6)]
    """

    def composed() -> Iterator[tuple]:
        iterables = [reader() for reader in readers]
        if not check_alignment:
            samples: Iterable[tuple] = zip(*iterables)
        else:
            samples = itertools.zip_longest(*iterables, fillvalue=_MISSING)
        for position, parts in enumerate(samples):
            for index, part in enumerate(parts):
                # Paddle takes a sample `None` for the end of a reader, so do we.
                if check_alignment and (part is _MISSING or part is None):
                    raise ComposeNotAligned(
                        f"reader {index} of {len(readers)} given to `compose` has no sample "
                        f"{position}, another reader has: give readers of one length, or "
                        "`check_alignment=False` to stop at the shortest"
                    )
            yield tuple(itertools.chain.from_iterable(map(_as_tuple, parts)))

    return composed


def buffered(reader: Reader, size: int) -> Reader:
    """Reads up to `size` samples ahead on a thread.

    >>> list(buffered(lambda: range(3), size=2)())
    [0, 1, 2]
    """

    def read_ahead() -> Iterator[Any]:
        channel = Channel(size)
        fill_in_thread(channel, reader)
        try:
            yield from channel
        finally:
            channel.close()

    return read_ahead


def firstn(reader: Reader, n: int) -> Reader:
    """Yields at most the first `n` samples.

    >>> list(firstn(lambda: range(10), 2)())
    [0, 1]
    """
    return lambda: itertools.islice(iter(reader()), n)


def _as_tuple(sample: Any) -> tuple:
    return sample if isinstance(sample, tuple) else (sample,)


set_public_names(__name__)
