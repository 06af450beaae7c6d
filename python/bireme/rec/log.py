"""Log lines as PaddleRec's, which people parse."""

from __future__ import annotations

import logging
import time
from typing import Any

FORMAT = "%(asctime)s - %(levelname)s - %(message)s"

logger = logging.getLogger("bireme.rec")


def start() -> logging.Logger:
    """Lets log lines appear, once; returns the logger."""
    logging.basicConfig(format=FORMAT, level=logging.INFO)
    return logger


class Pace:
    """Seconds spent on reading and on training since the last line.

    >>> pace = Pace()
    >>> pace.begin()
    >>> pace.end(2)
    >>> pace.line(2).startswith("avg_reader_cost: 0.0")
    True
    """

    def __init__(self) -> None:
        self._mark = time.time()
        self._forget()

    def begin(self) -> None:
        """A batch has been read."""
        now = time.time()
        self._reading += now - self._mark
        self._mark = now

    def end(self, samples: int) -> None:
        """A batch of so many samples has been trained on."""
        now = time.time()
        self._running += now - self._mark
        self._mark = now
        self._samples += samples

    def line(
        self, batches: int, unit: str = "ins/s", digits: int = 5, samples: int | None = None
    ) -> str:
        """Means over so many batches; begins anew. An evaluation says how many samples a batch has."""
        seconds = self._reading + self._running
        mean = self._samples / batches if samples is None else samples
        line = (
            f"avg_reader_cost: {self._reading / batches:.5f} sec, "
            f"avg_batch_cost: {seconds / batches:.5f} sec, "
            f"avg_samples: {mean:.5f}, "
            f"ips: {self._samples / max(seconds, 1e-9):.{digits}f} {unit}"
        )
        self._forget()
        return line

    def _forget(self) -> None:
        self._reading = self._running = 0.0
        self._samples = 0


def common_configs(values: dict[str, Any]) -> None:
    """The settings that a run begins with."""
    logger.info("**************common.configs**********")
    logger.info(", ".join(f"{name}: {value}" for name, value in values.items()))
    logger.info("**************common.configs**********")


class Visual:
    """Curves for VisualDL, where the config asks for them (`runner.use_visual`)."""

    def __init__(self, wanted: bool | None, folder: str) -> None:
        self._writer = None
        if wanted:
            from visualdl import LogWriter

            self._writer = LogWriter(folder)

    def add(self, tag: str, step: int, value: Any) -> None:
        """A point of a curve."""
        if self._writer is not None:
            self._writer.add_scalar(tag=tag, step=step, value=value)
