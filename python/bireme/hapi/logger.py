"""`Callback`, what callbacks of `Model` derive from, and `ProgBarLogger`, which prints its progress."""

from __future__ import annotations

import time
from typing import Any

from .._missing import missing_names
from .progressbar import ProgressBar

__all__ = ["Callback", "ProgBarLogger"]


class Callback:
    """What callbacks of `Model` derive from: each method is called at the time its name says.

    `self.model` is the `Model`, `self.params` the settings of the run (`batch_size`, `epochs`,
    `steps`, `verbose`, `metrics`). Setting `self.model.stop_training` ends the training after the
    epoch.

    >>> class Losses(paddle.callbacks.Callback):
    ...     def on_train_batch_end(self, step, logs=None):
    ...         print(step, len(logs["loss"]))
    >>> model = paddle.Model(paddle.nn.Linear(2, 1))
    >>> sgd = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    >>> model.prepare(sgd, paddle.nn.MSELoss())
    >>> data = [(paddle.ones([4, 2]), paddle.ones([4, 1]))] * 2
    >>> model.fit(data, verbose=0, callbacks=Losses())
    0 1
    1 1
    """

    def __init__(self) -> None:
        self.model: Any = None
        self.params: dict[str, Any] = {}

    def set_params(self, params: dict[str, Any]) -> None:
        """Called before a run, with its settings."""
        self.params = params

    def set_model(self, model: Any) -> None:
        """Called before a run, with the `Model`."""
        self.model = model

    def on_train_begin(self, logs: Any = None) -> None:
        """Called when training begins."""

    def on_train_end(self, logs: Any = None) -> None:
        """Called when training ends, with the losses and metrics of the last step."""

    def on_eval_begin(self, logs: Any = None) -> None:
        """Called when an evaluation begins, with `steps` and the names of `metrics`."""

    def on_eval_end(self, logs: Any = None) -> None:
        """Called when an evaluation ends, with its loss and metrics."""

    def on_predict_begin(self, logs: Any = None) -> None:
        """Called when a prediction begins, with `steps`."""

    def on_predict_end(self, logs: Any = None) -> None:
        """Called when a prediction ends."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Called when an epoch begins; the first is 0."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Called when an epoch ends, before its evaluation."""

    def on_train_batch_begin(self, step: int, logs: Any = None) -> None:
        """Called before a step of training."""

    def on_train_batch_end(self, step: int, logs: Any = None) -> None:
        """Called after a step of training, with its loss, the metrics and `batch_size`."""

    def on_eval_batch_begin(self, step: int, logs: Any = None) -> None:
        """Called before a step of an evaluation."""

    def on_eval_batch_end(self, step: int, logs: Any = None) -> None:
        """Called after a step of an evaluation."""

    def on_predict_batch_begin(self, step: int, logs: Any = None) -> None:
        """Called before a step of a prediction."""

    def on_predict_batch_end(self, step: int, logs: Any = None) -> None:
        """Called after a step of a prediction."""

    def on_interrupt(self) -> None:
        """Called when Ctrl-C ends a run, in the place of what would have ended it (not in Paddle)."""


class _Phase:
    """What is printed of one of the three kinds of runs: its bar, its counters and its times."""

    def __init__(self, steps: int | None, metrics: list[str], verbose: int) -> None:
        self.steps = steps
        self.metrics = metrics
        self.verbose = verbose
        self.done = 0
        self.samples = 0
        self.bar = ProgressBar(num=steps or None, verbose=verbose)
        self.now = time.time()
        self._forget()

    def _forget(self) -> None:
        """Starts the averages of `verbose=3` anew."""
        self.reading = self.computing = 0.0
        self.counted = self.counted_samples = 0

    def batch_begins(self) -> None:
        """What was waited for until now is the reader."""
        self.reading += self._since()

    def batch_ends(self, logs: dict[str, Any]) -> None:
        """One more step has run."""
        self.computing += self._since()
        samples = logs.get("batch_size", 1)
        self.done += 1
        self.counted += 1
        self.samples += samples
        self.counted_samples += samples

    def _since(self) -> float:
        before, self.now = self.now, time.time()
        return self.now - before

    def show(self, logs: dict[str, Any]) -> None:
        """Brings the bar up to date."""
        values = [(name, logs[name]) for name in self.metrics if name in logs]
        if self.verbose == 3:
            values += self._averages()
            self._forget()
        self.bar.update(self.done, values)

    def _averages(self) -> list[tuple[str, str]]:
        count = self.counted or 1
        seconds = self.reading + self.computing
        rate = (self.counted_samples or 1) / seconds if seconds else 0.0
        return [
            ("avg_reader_cost", f"{self.reading / count:.5f} sec"),
            ("avg_batch_cost", f"{self.computing / count:.5f} sec"),
            ("ips", f"{rate:.5f} samples/sec"),
        ]


class ProgBarLogger(Callback):
    """Prints losses and metrics every `log_freq` steps: as a bar (`verbose` 1), or in lines (2).

    3 adds the time of a step and of its reading; 0 prints nothing. `Model` uses one by itself.

    >>> paddle.callbacks.ProgBarLogger(log_freq=10, verbose=1).log_freq
    10
    """

    def __init__(self, log_freq: int = 1, verbose: int = 2) -> None:
        super().__init__()
        if not isinstance(log_freq, int) or log_freq < 1:
            raise ValueError(f"`log_freq` must be a whole number of at least 1, not {log_freq!r}")
        self.log_freq = log_freq
        self.verbose = verbose
        self.epochs: int | None = None
        self._phases: dict[str, _Phase] = {}

    def _is_print(self) -> bool:
        from ..distributed import get_rank

        return bool(self.verbose) and get_rank() == 0

    def _begin(self, kind: str, logs: Any, announce: str) -> None:
        logs = logs or {}
        self._phases[kind] = _Phase(logs.get("steps"), logs.get("metrics", []), self.verbose)
        if self._is_print():
            print(announce)

    def _batch_ends(self, kind: str, logs: Any) -> None:
        phase = self._phases[kind]
        phase.batch_ends(logs or {})
        is_last = phase.steps is not None and phase.done >= phase.steps
        if phase.done % self.log_freq == 0 and not is_last and self._is_print():
            phase.show(logs or {})

    def on_train_begin(self, logs: Any = None) -> None:
        """Says what the figures mean."""
        self.epochs = self.params["epochs"]
        if self._is_print():
            print(
                "The loss value printed in the log is the current step, and the metric is the "
                "average value of previous steps."
            )

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Says which epoch it is."""
        settings = {"steps": self.params["steps"], "metrics": self.params["metrics"]}
        self._begin("train", settings, f"Epoch {epoch + 1}/{self.epochs}")

    def on_train_batch_begin(self, step: int, logs: Any = None) -> None:
        """Takes the time."""
        self._phases["train"].batch_begins()

    def on_train_batch_end(self, step: int, logs: Any = None) -> None:
        """Prints, every `log_freq` steps."""
        self._batch_ends("train", logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Prints the end of the epoch."""
        if self._is_print() and self._phases["train"].steps is not None:
            self._phases["train"].show(logs or {})

    def on_eval_begin(self, logs: Any = None) -> None:
        """Says that an evaluation begins."""
        self._begin("eval", logs, "Eval begin...")

    def on_eval_batch_begin(self, step: int, logs: Any = None) -> None:
        """Takes the time."""
        self._phases["eval"].batch_begins()

    def on_eval_batch_end(self, step: int, logs: Any = None) -> None:
        """Prints, every `log_freq` steps."""
        self._batch_ends("eval", logs)

    def on_eval_end(self, logs: Any = None) -> None:
        """Prints the result."""
        phase = self._phases["eval"]
        if self._is_print() and phase.steps is not None:
            phase.show(logs or {})
            print(f"Eval samples: {phase.samples}")

    def on_predict_begin(self, logs: Any = None) -> None:
        """Says that a prediction begins."""
        self._begin("predict", logs, "Predict begin...")

    def on_predict_batch_begin(self, step: int, logs: Any = None) -> None:
        """Takes the time."""
        self._phases["predict"].batch_begins()

    def on_predict_batch_end(self, step: int, logs: Any = None) -> None:
        """Prints, every `log_freq` steps."""
        self._batch_ends("predict", logs)

    def on_predict_end(self, logs: Any = None) -> None:
        """Prints how many samples there were."""
        if not self._is_print():
            return
        phase = self._phases["predict"]
        if phase.done % self.log_freq != 0 or self.verbose == 1:
            phase.show(logs or {})
        print(f"Predict samples: {phase.samples}")

    def on_interrupt(self) -> None:
        """Leaves the bar as it is and begins a new line."""
        for phase in self._phases.values():
            phase.bar.end_line()


__getattr__ = missing_names(__name__)
