"""Samplers: the order in which a data set's samples are drawn.

Draws come from numpy's global generator in the order that Paddle makes them, so that the same
`numpy.random.seed` gives the same order in both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from typing import Any

import numpy as np

from ... import _core
from ..._names import set_public_names


class Sampler:
    """What samplers derive from: define `__iter__` (indices) and `__len__`.

    >>> from bireme.io import Sampler
    >>> Sampler("abc").data_source
    'abc'
    """

    def __init__(self, data_source: Any = None) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} must define `__iter__(self)`")


class SequenceSampler(Sampler):
    """Draws samples in order.

    >>> from bireme.io import SequenceSampler
    >>> list(SequenceSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        super().__init__(data_source)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """Draws samples in random order, or `num_samples` of them with `replacement`.

    A `generator` yields the indices itself.

    >>> from bireme.io import RandomSampler
    >>> sorted(RandomSampler("abc"))
    [0, 1, 2]
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Iterator[int] | None = None,
    ) -> None:
        super().__init__(data_source)
        self.replacement = replacement
        self.generator = generator
        self._num_samples = num_samples
        if not isinstance(replacement, bool):
            raise TypeError(f"`replacement` must be True or False, got {replacement!r}")
        if num_samples is not None and not replacement:
            raise ValueError("`num_samples` needs `replacement=True`")
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(
                f"`num_samples` must be a positive whole number, got {self.num_samples}"
            )

    @property
    def num_samples(self) -> int:
        """How many samples are drawn: those of the data set when it was not given."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        if self.generator:
            yield from (index for _, index in zip(range(self.num_samples), self.generator))
            return
        size = len(self.data_source)
        count = self.num_samples if self.replacement else size
        yield from np.random.choice(np.arange(size), count, replace=self.replacement).tolist()

    def __len__(self) -> int:
        return self.num_samples


class WeightedRandomSampler(Sampler):
    """Draws `num_samples` indices with chances in proportion to `weights` (one row or several).

    >>> from bireme.io import WeightedRandomSampler
    >>> list(WeightedRandomSampler([0.0, 1.0], 3))
    [1, 1, 1]
    """

    def __init__(self, weights: Any, num_samples: int, replacement: bool = True) -> None:
        if not isinstance(num_samples, int) or num_samples <= 0:
            raise ValueError(f"`num_samples` must be a positive whole number, got {num_samples}")
        if not isinstance(replacement, bool):
            raise ValueError(f"`replacement` must be True or False, got {replacement!r}")  # noqa: TRY004 - as Paddle
        super().__init__()
        self.weights = weights
        self.num_samples = num_samples
        self.replacement = replacement

    def __iter__(self) -> Iterator[int]:
        rows = self._checked_rows()
        for row in rows / rows.sum(axis=1, keepdims=True):
            yield from np.random.choice(len(row), self.num_samples, self.replacement, row).tolist()

    def __len__(self) -> int:
        shape = np.shape(self.weights)
        return self.num_samples * (int(np.prod(shape)) // shape[-1])

    def _checked_rows(self) -> np.ndarray:
        weights = np.asarray(self.weights)
        if weights.ndim not in (1, 2):
            raise ValueError(f"`weights` must have 1 or 2 dimensions, got {weights.ndim}")
        rows = weights.reshape(-1, weights.shape[-1])
        if not np.all(np.isfinite(rows)) or np.any(rows < 0):
            raise ValueError("`weights` must be finite and not negative")
        needed = 1 if self.replacement else self.num_samples
        if np.any((rows > 0).sum(axis=1) < needed):
            raise ValueError(f"`weights` needs at least {needed} positive values in each row")
        return rows


class SubsetRandomSampler(Sampler):
    """Draws given indices in random order (`bireme.seed`).

    >>> from bireme.io import SubsetRandomSampler
    >>> sorted(SubsetRandomSampler([5, 7]))
    [5, 7]
    """

    def __init__(self, indices: Sequence[int]) -> None:
        if len(indices) == 0:
            raise ValueError("`SubsetRandomSampler` needs at least one index")
        super().__init__()
        self.indices = indices

    def __iter__(self) -> Iterator[int]:
        return (self.indices[i] for i in random_order(len(self.indices)))

    def __len__(self) -> int:
        return len(self.indices)


def random_order(count: int) -> list[int]:
    """The numbers below `count` in an order that `bireme.seed` determines, in either mode."""
    static = not _core.in_dynamic_mode()
    if static:
        _core.disable_static()
    try:
        return _core.ops.randperm(n=count, dtype="int64").tolist()
    finally:
        if static:
            _core.enable_static()


set_public_names(__name__, but="random_order")
