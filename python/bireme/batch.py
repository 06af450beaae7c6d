"""`bireme.batch`: groups the samples of a reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def batch(
    reader: Callable[[], Any], batch_size: int, drop_last: bool = False
) -> Callable[[], Iterator[list]]:
    """Makes a reader of lists of `batch_size` samples out of a reader of samples.

    `drop_last` leaves out a last list that is shorter.

    >>> list(batch(lambda: iter(range(5)), batch_size=2)())
    [[0, 1], [2, 3], [4]]
    """
    size = int(batch_size)
    if size <= 0:
        raise ValueError(f"`batch_size` must be a positive whole number, got {batch_size}")

    def batch_reader() -> Iterator[list]:
        samples: list = []
        for sample in reader():
            samples.append(sample)
            if len(samples) == size:
                yield samples
                samples = []
        if samples and not drop_last:
            yield samples

    return batch_reader
