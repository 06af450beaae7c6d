"""Data generators: a user's `generate_sample` in, lines of `count value value...` per slot out."""

# ruff: noqa: TRY004 - Paddle raises ValueError here, and so does user code that catches it.

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any


class DataGenerator:
    """Reads lines, makes samples of them and writes these to standard output, batch by batch.

    Derive from a subclass of it and define `generate_sample`.

    >>> generator = DataGenerator()
    >>> generator.set_batch(8)
    >>> generator.batch_size_
    8
    """

    def __init__(self) -> None:
        # Slot names and kinds as the first sample has them; every later one is held against them.
        self._proto_info: list[tuple[str, str]] | None = None
        self.batch_size_ = 32

    def set_batch(self, batch_size: int) -> None:
        """Sets how many samples `generate_batch` is given at once (32 at first)."""
        self.batch_size_ = batch_size

    def run_from_memory(self) -> None:
        """Writes the samples of `generate_sample(None)`, which has its data itself."""
        self._write(self.generate_sample(None)())

    def run_from_stdin(self) -> None:
        """Writes the samples that `generate_sample` makes of each line of standard input."""
        self._write(sample for line in sys.stdin for sample in self.generate_sample(line)())

    def generate_sample(self, line: str | None) -> Callable[[], Iterable[Any]]:
        """To be defined by the user: returns a function that yields the samples of a line.

        A sample is a list or tuple of `(slot name, [value, ...])`; `None` is left out.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define `generate_sample(line)`, which returns a function "
            "that yields [(name, [value, ...]), ...]"
        )

    def generate_batch(self, samples: list) -> Callable[[], Iterable[Any]]:
        """May be defined by the user: works on a batch of samples, e.g. pads them."""
        return lambda: iter(samples)

    def _gen_str(self, line: Any) -> str:
        raise NotImplementedError(
            "use `MultiSlotDataGenerator` or `MultiSlotStringDataGenerator`: "
            f"`{type(self).__name__}` does not say how a sample is written"
        )

    def _write(self, samples: Iterable[Any]) -> None:
        batch: list = []
        for sample in samples:
            if sample is None:
                continue
            batch.append(sample)
            if len(batch) == self.batch_size_:
                self._write_batch(batch)
                batch = []
        if batch:
            self._write_batch(batch)

    def _write_batch(self, batch: list) -> None:
        for sample in self.generate_batch(batch)():
            sys.stdout.write(self._gen_str(sample))


class MultiSlotStringDataGenerator(DataGenerator):
    """Writes slots whose values are strings already; nothing but the sample's type is checked.

    >>> MultiSlotStringDataGenerator()._gen_str([("words", ["1926", "08"]), ("label", ["1"])])
    '2 1926 08 1 1\\n'
    """

    def _gen_str(self, line: Any) -> str:
        slots = (" ".join([str(len(values)), *values]) for _, values in _as_slots(line))
        return " ".join(slots) + "\n"


class MultiSlotDataGenerator(DataGenerator):
    """Writes slots of whole numbers and floats.

    The first sample says which slots there are; a slot that once has a float stays a float slot.

    >>> MultiSlotDataGenerator()._gen_str([("words", [1926, 8, 17]), ("label", [1])])
    '3 1926 8 17 1 1\\n'
    """

    def _gen_str(self, line: Any) -> str:
        slots = _as_slots(line)
        first = self._proto_info is None
        known = list(self._proto_info or [])
        if not first and len(slots) != len(known):
            raise ValueError(
                "the complete field set of two given line are inconsistent. "
                f"The first sample had {len(known)} slots, this one has {len(slots)}"
            )
        written = []
        for index, (name, values) in enumerate(slots):
            _check_slot(name, values)
            if first:
                known.append((name, "uint64"))
            elif name != known[index][0]:
                raise ValueError(
                    "the field name of two given line are not match: "
                    f"require<{known[index][0]}>, get<{name}>."
                )
            if any(isinstance(value, float) for value in values):
                known[index] = (name, "float")
            written.append(f"{len(values)} {' '.join(map(str, values))}")
        self._proto_info = known
        return " ".join(written) + "\n"


def _as_slots(line: Any) -> Any:
    line = list(line) if isinstance(line, zip) else line
    if not isinstance(line, (list, tuple)):
        raise ValueError(
            "the output of process() must be in list or tuple type, got "
            f"{type(line).__name__}; example: [('words', [1926, 8, 17]), ('label', [1])]"
        )
    return line


def _check_slot(name: Any, values: Any) -> None:
    if not isinstance(name, str):
        raise ValueError(f"name{type(name)} must be in str type")
    if not isinstance(values, list):
        raise ValueError(
            f"elements{type(values)} must be in list type: those of slot `{name}` are not"
        )
    if not values:
        raise ValueError(
            "the elements of each field can not be empty, you need padding it in process(). "
            f"Slot `{name}` is empty"
        )
    for value in values:
        if not isinstance(value, (int, float)):
            raise ValueError(
                f"the type of element{type(value)} must be in int or float: see slot `{name}`"
            )
