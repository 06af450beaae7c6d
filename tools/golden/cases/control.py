"""Counters. `assert`, `feed`, `fetch` and `print` have no values to compare."""

from golden import Case, values

CASES = [
    Case("increment", {"X": values([3], "int64")}, {"step": 2.0}),
    Case("increment", {"X": values([3], "int64")}, outputs={"Out": "X"}),
    Case("increment", {"X": values([0.5])}, {"step": -2.0}, grad=[]),
]
