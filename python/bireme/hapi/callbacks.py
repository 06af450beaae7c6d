"""The callbacks of `Model`: checkpoints, schedules, early stopping, and the list that calls them all."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from .._missing import missing_names
from .logger import Callback, ProgBarLogger

__all__ = [
    "Callback",
    "CallbackList",
    "EarlyStopping",
    "LRScheduler",
    "ModelCheckpoint",
    "ProgBarLogger",
    "ReduceLROnPlateau",
    "VisualDL",
    "config_callbacks",
]


class ModelCheckpoint(Callback):
    """Saves model and optimizer every `save_freq` epochs, as `save_dir/0` and so on, and `final`.

    `Model.fit(save_dir=...)` uses one by itself.

    >>> paddle.callbacks.ModelCheckpoint(save_freq=2, save_dir="models").save_freq
    2
    """

    def __init__(self, save_freq: int = 1, save_dir: str | None = None) -> None:
        super().__init__()
        if not isinstance(save_freq, int) or save_freq < 1:
            raise ValueError(f"`save_freq` must be a whole number of at least 1, not {save_freq!r}")
        self.save_freq = save_freq
        self.save_dir = save_dir

    def _save(self, name: str) -> None:
        from ..distributed import get_rank

        if self.save_dir and get_rank() == 0:
            path = f"{self.save_dir}/{name}"
            print(f"save checkpoint at {os.path.abspath(path)}")
            self.model.save(path)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Saves, every `save_freq` epochs."""
        if epoch % self.save_freq == 0:
            self._save(str(epoch))

    def on_train_end(self, logs: Any = None) -> None:
        """Saves the last state."""
        self._save("final")


class LRScheduler(Callback):
    """Steps the schedule of the optimizer after every step, or with `by_epoch` after every epoch.

    `Model.fit` uses one that goes by steps, unless it is given one.

    >>> paddle.callbacks.LRScheduler(by_step=False, by_epoch=True).by_epoch
    True
    """

    def __init__(self, by_step: bool = True, by_epoch: bool = False) -> None:
        super().__init__()
        if by_step and by_epoch:
            raise ValueError("by_step option is mutually exclusive with by_epoch")
        self.by_step = by_step
        self.by_epoch = by_epoch

    def _step(self) -> None:
        from ..optimizer.lr import LRScheduler as Schedule

        rate = getattr(self.model._optimizer, "_learning_rate", None)
        if isinstance(rate, Schedule):
            rate.step()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Steps, if it goes by epochs."""
        if self.by_epoch:
            self._step()

    def on_train_batch_end(self, step: int, logs: Any = None) -> None:
        """Steps, if it goes by steps."""
        if self.by_step:
            self._step()


class _Monitor(Callback):
    """What watches a loss or a metric of evaluations, and knows whether less of it is better."""

    def __init__(self, monitor: str, mode: str, kind: str) -> None:
        super().__init__()
        if mode not in ("auto", "min", "max"):
            warnings.warn(f"{kind} mode {mode} is unknown, fallback to auto mode.", stacklevel=3)
            mode = "auto"
        self.monitor = monitor
        self.mode = mode
        self.wants_more = mode == "max" or (mode == "auto" and "acc" in monitor)
        self.worst = -np.inf if self.wants_more else np.inf

    def is_better(self, value: float, than: float, by: float) -> bool:
        """Whether a value is better than another one, by more than so much."""
        return bool(value > than + by if self.wants_more else value < than - by)

    def value(self, logs: Any) -> float | None:
        """What is watched; `None`, with a warning, where the evaluation has none."""
        if not logs or self.monitor not in logs:
            warnings.warn(
                f"Monitor of {type(self).__name__} should be loss or metric name.", stacklevel=3
            )
            return None
        value = logs[self.monitor]
        return float(value[0] if isinstance(value, (list, tuple)) else value)


class EarlyStopping(_Monitor):
    """Ends the training when a loss or metric of evaluations has not improved `patience` times.

    `mode` says whether less of it is better (`min`) or more (`max`); `auto` takes what has `acc` in
    its name for more. With `baseline` it must become better than that. The best model so far is
    saved as `best_model` in the `save_dir` of `fit`.

    >>> paddle.callbacks.EarlyStopping("acc", patience=2, save_best_model=False).wants_more
    True
    """

    def __init__(
        self,
        monitor: str = "loss",
        mode: str = "auto",
        patience: int = 0,
        verbose: int = 1,
        min_delta: float = 0,
        baseline: float | None = None,
        save_best_model: bool = True,
    ) -> None:
        super().__init__(monitor, mode, "EarlyStopping")
        self.patience = patience
        self.verbose = verbose
        self.baseline = baseline
        self.min_delta = abs(min_delta)
        self.save_best_model = save_best_model
        # Set by `fit`.
        self.save_dir: str | None = None
        self.wait_epoch = 0
        self.stopped_epoch = 0
        self.best_value = self.worst

    def on_train_begin(self, logs: Any = None) -> None:
        """Forgets an earlier training."""
        self.wait_epoch = 0
        self.best_value = self.worst if self.baseline is None else self.baseline

    def on_eval_end(self, logs: Any = None) -> None:
        """Looks whether it has improved."""
        current = self.value(logs)
        if current is None:
            return
        if self.is_better(current, self.best_value, self.min_delta):
            self.best_value = current
            self.wait_epoch = 0
            if self._best_path() is not None:
                self.model.save(self._best_path())
        else:
            self.wait_epoch += 1
        if self.wait_epoch >= self.patience:
            self.model.stop_training = True
            if self.verbose > 0:
                self._report()
        self.stopped_epoch += 1

    def _best_path(self) -> str | None:
        saves = self.save_best_model and self.save_dir is not None
        return os.path.join(str(self.save_dir), "best_model") if saves else None

    def _report(self) -> None:
        print(f"Epoch {self.stopped_epoch + 1}: Early stopping.")
        path = self._best_path()
        if path is not None:
            print(f"Best checkpoint has been saved at {os.path.abspath(path)}")


class ReduceLROnPlateau(_Monitor):
    """Multiplies the learning rate by `factor` when evaluations have not improved `patience` times.

    After that it waits `cooldown` evaluations; `min_lr` is the lowest rate. For optimizers whose
    learning rate is a number.

    >>> paddle.callbacks.ReduceLROnPlateau(factor=0.5, patience=3).factor
    0.5
    """

    def __init__(
        self,
        monitor: str = "loss",
        factor: float = 0.1,
        patience: int = 10,
        verbose: int = 1,
        mode: str = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0,
    ) -> None:
        super().__init__(monitor, mode, "Learning rate reduction")
        if factor >= 1.0:
            raise ValueError("ReduceLROnPlateau does not support a factor >= 1.0.")
        self.factor = factor
        self.patience = patience
        self.verbose = verbose
        self.min_delta = min_delta
        self.cooldown = cooldown
        self.min_lr = min_lr
        self.epoch = 0
        self.on_train_begin()

    def on_train_begin(self, logs: Any = None) -> None:
        """Forgets an earlier training."""
        self.best = self.worst
        self.wait = 0
        self.cooldown_counter = 0

    def in_cooldown(self) -> bool:
        """Whether the rate was reduced a short time ago."""
        return self.cooldown_counter > 0

    def on_eval_end(self, logs: Any = None) -> None:
        """Looks whether it has improved."""
        current = self.value(logs)
        if current is None or not self._rate_is_number():
            return
        if self.in_cooldown():
            self.cooldown_counter -= 1
            self.wait = 0
        if self.is_better(current, self.best, self.min_delta):
            self.best = current
            self.wait = 0
        elif not self.in_cooldown():
            self.wait += 1
            if self.wait >= self.patience:
                self._reduce()
        self.epoch += 1

    def _rate_is_number(self) -> bool:
        rate = getattr(self.model._optimizer, "_learning_rate", None)
        if not isinstance(rate, (int, float)):
            warnings.warn(f"Expected learning_rate be float, but got {type(rate)}.", stacklevel=3)
            return False
        return True

    def _reduce(self) -> None:
        from ..distributed import get_rank

        optimizer = self.model._optimizer
        rate = optimizer.get_lr()
        if rate <= np.float32(self.min_lr):
            return
        reduced = max(rate * self.factor, self.min_lr)
        optimizer.set_lr(reduced)
        if self.verbose > 0 and get_rank() == 0:
            print(
                f"\nEpoch {self.epoch + 1}: ReduceLROnPlateau reducing learning rate to {reduced}."
            )
        self.cooldown_counter = self.cooldown
        self.wait = 0


class VisualDL(Callback):
    """Paddle's logger for VisualDL, which is not in this version: it raises and says what to do.

    >>> paddle.callbacks.VisualDL("logs")
    Traceback (most recent call last):
    ...
    NotImplementedError: `VisualDL` is not in Bireme: derive from `paddle.callbacks.Callback` and write `logs` where you want them in `on_train_batch_end` and `on_eval_end`
    """

    def __init__(self, log_dir: str) -> None:
        raise NotImplementedError(
            "`VisualDL` is not in Bireme: derive from `paddle.callbacks.Callback` and write `logs` "
            "where you want them in `on_train_batch_end` and `on_eval_end`"
        )


class CallbackList:
    """Callbacks that are called one after the other."""

    def __init__(self, callbacks: Any = None) -> None:
        self.callbacks = list(callbacks or [])

    def append(self, callback: Callback) -> None:
        """Adds one at the end."""
        self.callbacks.append(callback)

    def __iter__(self) -> Iterator[Callback]:
        return iter(self.callbacks)

    def set_params(self, params: dict[str, Any]) -> None:
        """Tells all the settings of a run."""
        self._call("set_params", params)

    def set_model(self, model: Any) -> None:
        """Tells all the `Model`."""
        self._call("set_model", model)

    def _call(self, name: str, *args: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, name)(*args)

    def on_begin(self, mode: str, logs: Any = None) -> None:
        """A run begins: `train`, `eval` or `predict`."""
        self._call(f"on_{mode}_begin", logs)

    def on_end(self, mode: str, logs: Any = None) -> None:
        """A run ends."""
        self._call(f"on_{mode}_end", logs)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """An epoch begins."""
        self._call("on_epoch_begin", epoch, logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """An epoch ends."""
        self._call("on_epoch_end", epoch, logs)

    def on_batch_begin(self, mode: str, step: int, logs: Any = None) -> None:
        """A step of a run begins."""
        self._call(f"on_{mode}_batch_begin", step, logs)

    def on_batch_end(self, mode: str, step: int, logs: Any = None) -> None:
        """A step of a run ends."""
        self._call(f"on_{mode}_batch_end", step, logs)

    def on_interrupt(self) -> None:
        """Ctrl-C ends the run."""
        for callback in self.callbacks:
            # One that was written for Paddle may not derive from `Callback`.
            getattr(callback, "on_interrupt", lambda: None)()


def config_callbacks(
    callbacks: Any = None,
    model: Any = None,
    batch_size: int | None = None,
    epochs: int | None = None,
    steps: int | None = None,
    log_freq: int = 2,
    verbose: int = 2,
    save_freq: int = 1,
    save_dir: str | None = None,
    metrics: Any = None,
    mode: str = "train",
) -> CallbackList:
    """The callbacks of a run: those given, and the usual ones where none of their kind is given.

    >>> from bireme.hapi.callbacks import config_callbacks
    >>> [type(one).__name__ for one in config_callbacks()]
    ['ProgBarLogger', 'ModelCheckpoint', 'LRScheduler']
    """
    listed = list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks]
    listed = [] if callbacks is None else listed

    def has(kind: type) -> bool:
        return any(isinstance(callback, kind) for callback in listed)

    if verbose and not has(ProgBarLogger):
        listed.insert(0, ProgBarLogger(log_freq, verbose=verbose))
    if not has(ModelCheckpoint):
        listed.append(ModelCheckpoint(save_freq, save_dir))
    for callback in listed:
        if isinstance(callback, EarlyStopping):
            callback.save_dir = save_dir
    if not has(LRScheduler):
        listed.append(LRScheduler())
    whole = CallbackList(listed)
    whole.set_model(model)
    whole.set_params(
        {
            "batch_size": batch_size,
            "epochs": epochs,
            "steps": steps,
            "verbose": verbose,
            "metrics": list(metrics or []) if mode != "test" else [],
        }
    )
    return whole


__getattr__ = missing_names(__name__)
