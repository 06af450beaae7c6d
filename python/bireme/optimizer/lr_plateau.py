"""The schedule that follows a metric instead of the step number."""

from __future__ import annotations

from typing import Any

from .._names import set_public_names
from .lr_base import LRScheduler


class ReduceOnPlateau(LRScheduler):
    """Multiplied by `factor` when the metric has not improved for more than `patience` steps.

    >>> schedule = paddle.optimizer.lr.ReduceOnPlateau(1.0, factor=0.5, patience=0)
    >>> schedule.step(2.0)
    >>> schedule.step(2.0)
    >>> schedule()
    0.5
    """

    def __init__(
        self,
        learning_rate: float,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float = 0,
        epsilon: float = 1e-8,
        verbose: bool = False,
    ) -> None:
        self.mode = _one_of("mode", mode.lower(), ("min", "max"))
        self.threshold_mode = _one_of("threshold_mode", threshold_mode.lower(), ("rel", "abs"))
        if factor >= 1.0:
            raise ValueError(f"`factor` must be under 1, but is {factor}")
        if not isinstance(learning_rate, (float, int)):
            raise TypeError(
                f"the learning rate must be a number, but is `{type(learning_rate).__name__}`"
            )
        self.factor = factor
        self.patience = patience
        self.threshold = threshold
        self.cooldown = cooldown
        self.min_lr = min_lr
        self.epsilon = epsilon
        self.cooldown_counter = 0
        self.best: Any = None
        self.num_bad_epochs = 0
        # The base class would step at once, but there is no metric yet.
        self.base_lr = float(learning_rate)
        self.last_lr = float(learning_rate)
        self.last_epoch = 0
        self.verbose = verbose
        self._var_name = None

    def state_keys(self) -> None:
        self.keys = ["cooldown_counter", "best", "num_bad_epochs", "last_epoch", "last_lr"]

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Takes note of the metric of this step."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        metric = _one_number(metrics)
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            return
        if self.best is None or self._is_better(metric, self.best):
            self.best = metric
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.num_bad_epochs > self.patience:
            self._reduce()

    def _reduce(self) -> None:
        self.cooldown_counter = self.cooldown
        self.num_bad_epochs = 0
        reduced = max(self.last_lr * self.factor, self.min_lr)
        if self.last_lr - reduced > self.epsilon:
            self.last_lr = reduced
            self._report()

    def _is_better(self, current: float, best: float) -> bool:
        margin = best * self.threshold if self.threshold_mode == "rel" else self.threshold
        return current < best - margin if self.mode == "min" else current > best + margin


def _one_of(name: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {choices}, but is {value!r}")
    return value


def _one_number(metrics: Any) -> float:
    size = getattr(metrics, "size", 1)
    if size != 1:
        raise AssertionError(
            f"`metrics` must be one number, but has {size} elements: take its mean first"
        )
    try:
        return float(metrics.item() if hasattr(metrics, "item") else metrics)
    except (TypeError, ValueError):
        raise TypeError(
            f"`metrics` must be a number, an array or a tensor, but is `{type(metrics).__name__}`"
        ) from None


set_public_names(__name__)
