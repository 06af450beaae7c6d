"""The Boston housing data of UCI, shipped with the package: 506 houses, 13 features, one price.

Features are scaled to `(x - mean) / (max - min)` over all rows; the first 404 rows are for training.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator

import numpy as np

feature_names = [
    "CRIM",
    "ZN",
    "INDUS",
    "CHAS",
    "NOX",
    "RM",
    "AGE",
    "DIS",
    "RAD",
    "TAX",
    "PTRATIO",
    "B",
    "LSTAT",
]

_TRAIN_SHARE = 0.8

Reader = Callable[[], Iterator[tuple[np.ndarray, np.ndarray]]]


def train() -> Reader:
    """A reader of `(13 features, [price])` of the 404 training rows.

    >>> from bireme.dataset import uci_housing
    >>> features, price = next(uci_housing.train()())
    >>> len(features), float(price[0])
    (13, 24.0)
    """
    rows, split = _load()
    return _reader(rows[:split])


def test() -> Reader:
    """A reader of the 102 test rows.

    >>> from bireme.dataset import uci_housing
    >>> len(list(uci_housing.test()()))
    102
    """
    rows, split = _load()
    return _reader(rows[split:])


def predict_reader() -> tuple[np.ndarray]:
    """The features of the first test row, in a tuple.

    >>> from bireme.dataset import uci_housing
    >>> uci_housing.predict_reader()[0].shape
    (13,)
    """
    rows, split = _load()
    return (rows[split][:-1],)


def fetch() -> None:
    """Does what Paddle's `fetch` is for: makes sure that the data is here (it always is).

    >>> from bireme.dataset import uci_housing
    >>> uci_housing.fetch()
    >>> len(list(uci_housing.train()())), len(list(uci_housing.test()()))
    (404, 102)
    """
    _load()


@functools.lru_cache(maxsize=1)
def _load() -> tuple[np.ndarray, int]:
    path = os.path.join(os.path.dirname(__file__), "housing.data")
    with open(path, encoding="ascii") as file:
        rows = np.array(file.read().split(), "float64").reshape(-1, len(feature_names) + 1)
    mean = rows.sum(axis=0) / len(rows)
    scaled = (rows - mean) / (rows.max(axis=0) - rows.min(axis=0))
    rows[:, :-1] = scaled[:, :-1]
    return rows, int(len(rows) * _TRAIN_SHARE)


def _reader(rows: np.ndarray) -> Reader:
    return lambda: ((row[:-1], row[-1:]) for row in rows)
