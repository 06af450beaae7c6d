"""Schedules that go up and down: cosine annealing, one cycle, cyclic, linear."""

from __future__ import annotations

import math
from collections.abc import Callable

from .._names import set_public_names
from .lr_base import LRScheduler, check_positive_integer


class CosineAnnealingDecay(LRScheduler):
    """Follows a cosine between the start and `eta_min`, half a period in `T_max` steps.

    >>> schedule = paddle.optimizer.lr.CosineAnnealingDecay(0.5, T_max=10)
    >>> schedule.step(10)
    >>> schedule()
    0.0
    """

    def __init__(
        self,
        learning_rate: float,
        T_max: int,
        eta_min: float = 0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not isinstance(T_max, int):
            raise TypeError(f"`T_max` must be an int, but is `{type(T_max).__name__}`")
        if not isinstance(eta_min, (float, int)):
            raise TypeError(f"`eta_min` must be a number, but is `{type(eta_min).__name__}`")
        check_positive_integer("T_max", T_max)
        self.T_max = T_max
        self.eta_min = float(eta_min)
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        # Computed from the last value, not from the step, so that a rate changed by hand goes on.
        if self.last_epoch == 0:
            return self.base_lr
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            rise = (self.base_lr - self.eta_min) * (1 - math.cos(math.pi / self.T_max)) / 2
            return self.last_lr + rise
        now = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        before = 1 + math.cos(math.pi * (self.last_epoch - 1) / self.T_max)
        return now / before * (self.last_lr - self.eta_min) + self.eta_min

    def _get_closed_form_lr(self) -> float:
        height = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        return self.eta_min + (self.base_lr - self.eta_min) * height / 2


class OneCycleLR(LRScheduler):
    """Up to `max_learning_rate` and down again, once in `total_steps`.

    >>> schedule = paddle.optimizer.lr.OneCycleLR(1.0, total_steps=10)
    >>> round(schedule(), 4)
    0.04
    """

    def __init__(
        self,
        max_learning_rate: float,
        total_steps: int,
        divide_factor: float = 25.0,
        end_learning_rate: float = 0.0001,
        phase_pct: float = 0.3,
        anneal_strategy: str = "cos",
        three_phase: bool = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        _check_rate("max_learning_rate", max_learning_rate)
        _check_rate("end_learning_rate", end_learning_rate)
        _check_steps("total_steps", total_steps)
        if not isinstance(phase_pct, float):
            raise TypeError(f"`phase_pct` must be a float, but is `{type(phase_pct).__name__}`")
        if not 0 <= phase_pct <= 1:
            raise ValueError(f"`phase_pct` must be between 0 and 1, but is {phase_pct}")
        if three_phase and phase_pct >= 0.5:
            raise ValueError(f"`phase_pct` must be under 0.5 with three phases, but is {phase_pct}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"`anneal_strategy` must be cos or linear, but is {anneal_strategy!r}")
        self.total_steps = total_steps
        self.anneal_func = _cosine if anneal_strategy == "cos" else _line
        initial, last = max_learning_rate / float(divide_factor), float(end_learning_rate)
        top, end = phase_pct * total_steps - 1, total_steps - 1
        # Phases as (first step, last step, first rate, last rate).
        if three_phase:
            down = 2 * phase_pct * total_steps - 2
            self._phases = [
                (0, top, initial, max_learning_rate),
                (top, down, max_learning_rate, initial),
                (down, end, initial, last),
            ]
        else:
            self._phases = [
                (0, top, initial, max_learning_rate),
                (top, end, max_learning_rate, last),
            ]
        super().__init__(initial, last_epoch, verbose)

    def get_lr(self) -> float:
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"step {step} is past the {self.total_steps} steps of the schedule")
        first, last, start, end = next(
            (phase for phase in self._phases if step <= phase[1]), self._phases[-1]
        )
        return self.anneal_func(start, end, (step - first) / (last - first))


def _cosine(start: float, end: float, part: float) -> float:
    return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)


def _line(start: float, end: float, part: float) -> float:
    return (end - start) * part + start


class CyclicLR(LRScheduler):
    """Up and down between two rates, again and again.

    >>> schedule = paddle.optimizer.lr.CyclicLR(0.5, max_learning_rate=1.0, step_size_up=2)
    >>> schedule.step()
    >>> schedule()
    0.75
    """

    def __init__(
        self,
        base_learning_rate: float,
        max_learning_rate: float,
        step_size_up: int,
        step_size_down: int | None = None,
        mode: str = "triangular",
        exp_gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        _check_rate("max_learning_rate", max_learning_rate)
        _check_steps("step_size_up", step_size_up)
        if step_size_down is not None:
            _check_steps("step_size_down", step_size_down)
        if not isinstance(exp_gamma, float):
            raise TypeError(f"`exp_gamma` must be a float, but is `{type(exp_gamma).__name__}`")
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError(
                f"`mode` must be triangular, triangular2 or exp_range, but is {mode!r}, "
                "and there is no `scale_fn`"
            )
        if scale_mode not in ("cycle", "iterations"):
            raise ValueError(f"`scale_mode` must be cycle or iterations, but is {scale_mode!r}")
        down = float(step_size_down) if step_size_down is not None else float(step_size_up)
        self.cycle_size = float(step_size_up) + down
        self.step_up_pct = float(step_size_up) / self.cycle_size
        self.max_lr = float(max_learning_rate)
        self.amplitude = self.max_lr - base_learning_rate
        self.mode = mode
        self.gamma = exp_gamma
        if scale_fn is None:
            scale_fn, scale_mode = self._scaling(mode)
        self.scale_fn = scale_fn
        self.scale_mode = scale_mode
        super().__init__(base_learning_rate, last_epoch, verbose)

    def _scaling(self, mode: str) -> tuple[Callable[[float], float], str]:
        if mode == "triangular":
            return lambda cycle: 1.0, "cycle"
        if mode == "triangular2":
            return lambda cycle: 1 / (2.0 ** (cycle - 1)), "cycle"
        return lambda step: self.gamma**step, "iterations"

    def get_lr(self) -> float:
        step = self.last_epoch
        cycle = 1 + step // self.cycle_size
        part = 1.0 + step / self.cycle_size - cycle
        if part <= self.step_up_pct:
            height = part / self.step_up_pct
        else:
            height = (1 - part) / (1 - self.step_up_pct)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else step)
        return self.base_lr + self.amplitude * height * scale


class LinearLR(LRScheduler):
    """From `start_factor` to `end_factor` times the learning rate within `total_steps`.

    >>> paddle.optimizer.lr.LinearLR(0.9, total_steps=5, start_factor=0.5)()
    0.45
    """

    def __init__(
        self,
        learning_rate: float,
        total_steps: int,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not 0 < start_factor <= 1.0:
            raise ValueError(f"`start_factor` must be in (0, 1], but is {start_factor}")
        if not 0 <= end_factor <= 1.0:
            raise ValueError(f"`end_factor` must be in [0, 1], but is {end_factor}")
        if total_steps <= 0:
            raise ValueError(f"`total_steps` must be positive, but is {total_steps}")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_steps = total_steps
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        if self.last_epoch == 0:
            return self.base_lr * self.start_factor
        if self.last_epoch > self.total_steps:
            return self.last_lr
        growth = self.end_factor - self.start_factor
        before = self.total_steps * self.start_factor + (self.last_epoch - 1) * growth
        return self.last_lr * (1.0 + growth / before)


class CosineAnnealingWarmRestarts(LRScheduler):
    """Cosine annealing that starts again after `T_0` steps, each run `T_mult` times as long.

    >>> schedule = paddle.optimizer.lr.CosineAnnealingWarmRestarts(1.0, T_0=2)
    >>> schedule.step(2)
    >>> schedule()
    1.0
    """

    def __init__(
        self,
        learning_rate: float,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        _check_steps("T_0", T_0)
        _check_steps("T_mult", T_mult)
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        height = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return self.eta_min + (self.base_lr - self.eta_min) * height / 2

    def step(self, epoch: float | None = None) -> None:
        """Goes on to the next step, or to step `epoch`, which may be a fraction."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        else:
            self._jump(epoch)
        self.last_epoch = math.floor(epoch)
        self.last_lr = self.get_lr()
        self._report()

    def _jump(self, epoch: float) -> None:
        if epoch < 0:
            raise ValueError(f"`epoch` must not be negative, but is {epoch}")
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            run = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**run - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**run


def _check_rate(name: str, value: float) -> None:
    if not isinstance(value, (float, int)):
        raise TypeError(f"`{name}` must be a number, but is `{type(value).__name__}`")
    if value < 0:
        raise ValueError(f"`{name}` must not be negative, but is {value}")


def _check_steps(name: str, value: int) -> None:
    if not isinstance(value, int):
        raise TypeError(f"`{name}` must be an int, but is `{type(value).__name__}`")
    if value <= 0:
        raise ValueError(f"`{name}` must be positive, but is {value}")


set_public_names(__name__)
