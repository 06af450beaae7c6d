"""`ProgressBar`: how far an epoch is, with losses and metrics, on one line that is written over."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from typing import Any, TextIO

import numpy as np

from .._missing import missing_names

__all__ = ["ProgressBar"]


class ProgressBar:
    """Shows steps of a known or unknown number; `verbose` 1 draws a bar, 2 and 3 write lines.

    On a terminal the bar is written over; elsewhere each update is a line of its own.

    >>> bar = ProgressBar(num=20, verbose=2)
    >>> bar.update(10, [("loss", [0.5])])  # doctest: +ELLIPSIS
    step 10/20 - loss: 0.5000 - .../step
    """

    def __init__(
        self,
        num: int | None = None,
        width: int = 30,
        verbose: int = 1,
        start: bool = True,
        file: TextIO | None = None,
        name: str = "step",
    ) -> None:
        if isinstance(num, int) and num <= 0:
            raise TypeError("num should be None or integer (> 0)")
        self._num = num
        self._verbose = verbose
        self._file = file
        self.name = name
        columns = shutil.get_terminal_size().columns or 80
        self._width = max(min(width, int(columns * 0.6), columns - 50), 1)
        # The length of the line that the next update writes over.
        self._shown = 0
        self._start = time.time() if start else 0.0

    @property
    def file(self) -> TextIO:
        """Where it writes: standard output, as it is at the moment, unless told otherwise."""
        return self._file or sys.stdout

    def start(self) -> None:
        """Counts the time of steps from now."""
        self.file.flush()
        self._start = time.time()

    def update(self, current_num: int, values: Sequence[tuple[str, Any]] = ()) -> None:
        """Shows that so many steps are done, and the values by name."""
        pace = (time.time() - self._start) / current_num if current_num else 0.0
        shown = "".join(f" - {name}:{_figures(value)}" for name, value in values)
        if self._verbose == 1:
            self._draw(current_num, shown, pace)
        elif self._verbose in (2, 3):
            self.file.write(f"{self._count(current_num)}{shown}{self._pace(pace)}\n")
        self.file.flush()

    def end_line(self) -> None:
        """Leaves the line that would be written over, for somebody else to write."""
        if self._shown:
            self.file.write("\n")
            self.file.flush()
            self._shown = 0

    def _draw(self, current: int, shown: str, pace: float) -> None:
        line = self._count(current)
        if self._num is not None:
            line += f" [{self._bar(current)}]"
        line += shown
        if self._num is not None and current < self._num:
            line += f" - ETA: {_duration(pace * (self._num - current))}"
        line += self._pace(pace)
        is_terminal = bool(getattr(self.file, "isatty", bool)())
        self.file.write(f"\r{line:<{self._shown}}" if is_terminal else line)
        self._shown = len(line)
        if not is_terminal or self._num is None or current >= self._num:
            self.end_line()

    def _count(self, current: int) -> str:
        if self._num is None:
            return f"{self.name} {current:3d}"
        return f"{self.name} {current:{len(str(self._num))}d}/{self._num}"

    def _bar(self, current: int) -> str:
        assert self._num is not None
        done = int(self._width * min(current / self._num, 1.0))
        head = (">" if current < self._num else "=") if done else ""
        return f"{'=' * (done - 1)}{head}".ljust(self._width, ".")

    def _pace(self, seconds: float) -> str:
        if seconds >= 1 or seconds == 0:
            return f" - {seconds:.0f}s/{self.name}"
        if seconds >= 1e-3:
            return f" - {seconds * 1e3:.0f}ms/{self.name}"
        return f" - {seconds * 1e6:.0f}us/{self.name}"


def _figures(value: Any) -> str:
    """A value, or the values of a list, with a blank before each."""
    values = value if isinstance(value, (list, tuple)) else [value]
    return "".join(f" {_figure(one)}" for one in values)


def _figure(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    if not isinstance(value, (float, np.floating)):
        return str(value)
    return f"{value:.4f}" if abs(value) > 1e-3 else f"{value:.4e}"


def _duration(seconds: float) -> str:
    whole = int(seconds)
    if whole > 3600:
        return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"
    return f"{whole // 60}:{whole % 60:02d}" if whole > 60 else f"{whole}s"


__getattr__ = missing_names(__name__)
