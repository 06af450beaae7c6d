"""Turns the files of UCI Adult into `slot:value` lines for Wide & Deep.

    python examples/adult/prepare.py ADULT_DIR OUT_DIR [--parts N]

ADULT_DIR holds adult.data and adult.test, plain or with .gz, from
https://archive.ics.uci.edu/dataset/2/adult. OUT_DIR gets train/part-* and test/part-0.

Slots 1 to 8 are the categories of a person, 9 to 13 ranges of the numbers, 14 to 19 pairs of
these. Ids are numbered over all slots in the order in which the training file names them; what
only the test file has is left out, and reads as id 0. Dense features are the six numbers, brought
to about the same size.
"""

from __future__ import annotations

import argparse
import gzip
import math
import random
from collections.abc import Iterator
from pathlib import Path

CATEGORIES = [1, 3, 5, 6, 7, 8, 9, 13]
"""Columns: work class, education, marital status, occupation, relationship, race, sex, country."""

AGES = [18, 22, 25, 30, 35, 40, 45, 50, 55, 60, 65]
GAINS = [1, 3000, 5000, 7000, 10000, 15000, 50000]
LOSSES = [1, 1600, 1800, 1950, 2200, 2500]
HOURS = [20, 30, 36, 40, 45, 50, 60]


def read(folder: Path, name: str) -> Iterator[list[str]]:
    """The rows of a file, without its comments and empty lines."""
    path = folder / name
    packed = folder / f"{name}.gz"
    with gzip.open(packed, "rt") if packed.exists() else path.open() as lines:
        for line in lines:
            row = [cell.strip() for cell in line.rstrip(".\n").split(",")]
            if len(row) == 15:
                yield row


def range_of(value: str, bounds: list[int]) -> str:
    """The number of the range that a value is in."""
    return str(sum(float(value) >= bound for bound in bounds))


def slots(row: list[str]) -> list[str]:
    """The value of each slot."""
    _, education, marital, occupation, relationship, _, sex, country = values = [
        row[column] for column in CATEGORIES
    ]
    age, gain = range_of(row[0], AGES), range_of(row[10], GAINS)
    loss, hours = range_of(row[11], LOSSES), range_of(row[12], HOURS)
    ranges = [age, gain, loss, hours, row[4]]
    pairs = [
        (education, occupation),
        (marital, occupation),
        (age, education),
        (relationship, hours),
        (occupation, hours),
        (sex, country),
    ]
    return values + ranges + ["+".join(pair) for pair in pairs]


def dense(row: list[str]) -> list[float]:
    """The six numbers, each about between 0 and 1."""
    age, weight, education, gain, loss, hours = (float(row[at]) for at in (0, 2, 4, 10, 11, 12))
    logs = [math.log1p(gain) / 12, math.log1p(loss) / 9]
    return [age / 100, weight / 1e6, education / 16, *logs, hours / 100]


def line(row: list[str], ids: dict[tuple[int, str], int]) -> str:
    """One sample."""
    tokens = [f"click:{int('>' in row[14])}"]
    tokens += [f"dense_feature:{number:.5g}" for number in dense(row)]
    for slot, value in enumerate(slots(row), 1):
        if (slot, value) in ids:
            tokens.append(f"{slot}:{ids[slot, value]}")
    return " ".join(tokens)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("adult_dir", type=Path)
    parser.add_argument("out_dir", type=Path)
    parser.add_argument("--parts", type=int, default=4, help="files of training data (4)")
    args = parser.parse_args()

    train = list(read(args.adult_dir, "adult.data"))
    random.Random(1).shuffle(train)
    ids: dict[tuple[int, str], int] = {}
    for row in train:
        for key in enumerate(slots(row), 1):
            ids.setdefault(key, len(ids) + 1)
    test = list(read(args.adult_dir, "adult.test"))
    files = {f"train/part-{part}": train[part :: args.parts] for part in range(args.parts)}
    for name, rows in {**files, "test/part-0": test}.items():
        path = args.out_dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(line(row, ids) + "\n" for row in rows))
    print(f"{len(train)} samples to train on, {len(test)} to test; ids up to {len(ids)}")


if __name__ == "__main__":
    main()
