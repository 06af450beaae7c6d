"""Learning rate schedules: plain Python formulas of the step number, as in Paddle 2.6.

A schedule holds `last_epoch` (the number of `step()` calls so far) and `last_lr`. It knows nothing
of optimizers: these ask for `schedule()` before each update.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .._names import set_public_names
from .lr_base import *
from .lr_base import check_callable, check_gamma, check_positive_integer
from .lr_cycles import *
from .lr_plateau import *


class NoamDecay(LRScheduler):
    """Grows linearly for `warmup_steps`, then falls as the inverse root of the step.

    >>> paddle.optimizer.lr.NoamDecay(d_model=4, warmup_steps=100)()
    0.0
    """

    def __init__(
        self,
        d_model: int,
        warmup_steps: int,
        learning_rate: float = 1.0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if d_model <= 0:
            raise ValueError(f"`d_model` must be positive, but is {d_model}")
        self.d_model = d_model
        self.warmup_steps = warmup_steps
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        falling = 1 if self.last_epoch == 0 else self.last_epoch**-0.5
        growing = self.warmup_steps**-1.5 * self.last_epoch
        return self.base_lr * self.d_model**-0.5 * min(falling, growing)


class PiecewiseDecay(LRScheduler):
    """`values[i]` until step `boundaries[i]`, then the next.

    >>> schedule = paddle.optimizer.lr.PiecewiseDecay([1], [0.1, 0.01])
    >>> schedule.step()
    >>> schedule()
    0.01
    """

    def __init__(
        self,
        boundaries: Sequence[int],
        values: Sequence[float],
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if len(boundaries) == 0:
            raise ValueError("`boundaries` must not be empty")
        if len(values) <= len(boundaries):
            raise ValueError(
                f"`values` must have one element more than `boundaries`, "
                f"but there are {len(values)} values for {len(boundaries)} boundaries"
            )
        self.boundaries = boundaries
        self.values = values
        super().__init__(last_epoch=last_epoch, verbose=verbose)

    def get_lr(self) -> float:
        for boundary, value in zip(self.boundaries, self.values):
            if self.last_epoch < boundary:
                return value
        return self.values[-1]


class NaturalExpDecay(LRScheduler):
    """`learning_rate * exp(-gamma * step)`.

    >>> paddle.optimizer.lr.NaturalExpDecay(0.5, gamma=0.1)()
    0.5
    """

    def __init__(
        self, learning_rate: float, gamma: float, last_epoch: int = -1, verbose: bool = False
    ) -> None:
        if gamma <= 0.0:
            raise AssertionError(f"`gamma` must be positive, but is {gamma}")
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * math.exp(-1 * self.gamma * self.last_epoch)


class InverseTimeDecay(LRScheduler):
    """`learning_rate / (1 + gamma * step)`.

    >>> paddle.optimizer.lr.InverseTimeDecay(0.5, gamma=0.1)()
    0.5
    """

    def __init__(
        self, learning_rate: float, gamma: float, last_epoch: int = -1, verbose: bool = False
    ) -> None:
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr / (1 + self.gamma * self.last_epoch)


class PolynomialDecay(LRScheduler):
    """Falls to `end_lr` within `decay_steps`, as a polynomial of degree `power`.

    >>> paddle.optimizer.lr.PolynomialDecay(0.5, decay_steps=20)()
    0.5
    """

    def __init__(
        self,
        learning_rate: float,
        decay_steps: int,
        end_lr: float = 0.0001,
        power: float = 1.0,
        cycle: bool = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        check_positive_integer("decay_steps", decay_steps)
        if power <= 0.0:
            raise AssertionError(f"`power` must be positive, but is {power}")
        self.decay_steps = decay_steps
        self.end_lr = end_lr
        self.power = power
        self.cycle = cycle
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        step, steps = float(self.last_epoch), float(self.decay_steps)
        if self.cycle:
            steps *= 1 if self.last_epoch == 0 else math.ceil(step / steps)
        else:
            step = min(step, steps)
        return (self.base_lr - self.end_lr) * (1 - step / steps) ** self.power + self.end_lr


class LinearWarmup(LRScheduler):
    """Grows from `start_lr` to `end_lr` within `warmup_steps`, then follows `learning_rate`.

    >>> schedule = paddle.optimizer.lr.LinearWarmup(0.5, 10, start_lr=0.0, end_lr=0.5)
    >>> schedule.step()
    >>> schedule()
    0.05
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        warmup_steps: int,
        start_lr: float,
        end_lr: float,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not isinstance(learning_rate, (float, int, LRScheduler)):
            raise TypeError(
                "the learning rate must be a number or a schedule, "
                f"but is `{type(learning_rate).__name__}`"
            )
        check_positive_integer("warmup_steps", warmup_steps)
        if end_lr <= start_lr:
            raise AssertionError(f"`end_lr` {end_lr} must be greater than `start_lr` {start_lr}")
        self.learning_rate = learning_rate
        self.warmup_steps = warmup_steps
        self.start_lr = start_lr
        self.end_lr = end_lr
        super().__init__(start_lr, last_epoch, verbose)

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        if isinstance(self.learning_rate, LRScheduler):
            state["LinearWarmup_LR"] = self.learning_rate.state_dict()
        return state

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        state = dict(state_dict)
        inner = state.pop("LinearWarmup_LR", None)
        super().set_state_dict(state)
        if isinstance(self.learning_rate, LRScheduler):
            self.learning_rate.set_state_dict(inner)

    def get_lr(self) -> float:
        if self.last_epoch < self.warmup_steps:
            span = self.end_lr - self.start_lr
            return span * float(self.last_epoch) / float(self.warmup_steps) + self.start_lr
        if isinstance(self.learning_rate, LRScheduler):
            self.learning_rate.step(self.last_epoch - self.warmup_steps)
            return self.learning_rate()
        return self.learning_rate


class ExponentialDecay(LRScheduler):
    """`learning_rate * gamma ** step`.

    >>> paddle.optimizer.lr.ExponentialDecay(0.5, gamma=0.9)()
    0.5
    """

    def __init__(
        self, learning_rate: float, gamma: float, last_epoch: int = -1, verbose: bool = False
    ) -> None:
        if not 0.0 < gamma < 1.0:
            raise AssertionError(f"`gamma` must be in (0, 1), but is {gamma}")
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * self.gamma**self.last_epoch


class MultiStepDecay(LRScheduler):
    """Multiplied by `gamma` at each milestone.

    >>> paddle.optimizer.lr.MultiStepDecay(0.5, milestones=[30, 50])()
    0.5
    """

    def __init__(
        self,
        learning_rate: float,
        milestones: Sequence[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not isinstance(milestones, (tuple, list)):
            raise TypeError(
                f"`milestones` must be a list or tuple, but is `{type(milestones).__name__}`"
            )
        if sorted(set(milestones)) != list(milestones):
            raise ValueError(f"`milestones` must grow, but is {list(milestones)}")
        check_gamma(gamma)
        self.milestones = milestones
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        passed = sum(self.last_epoch >= milestone for milestone in self.milestones)
        return self.base_lr * self.gamma**passed


class StepDecay(LRScheduler):
    """Multiplied by `gamma` every `step_size` steps.

    >>> paddle.optimizer.lr.StepDecay(0.5, step_size=5, gamma=0.8)()
    0.5
    """

    def __init__(
        self,
        learning_rate: float,
        step_size: int,
        gamma: float = 0.1,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not isinstance(step_size, int):
            raise TypeError(f"`step_size` must be an int, but is `{type(step_size).__name__}`")
        check_positive_integer("step_size", step_size)
        check_gamma(gamma)
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * self.gamma ** (self.last_epoch // self.step_size)


class LambdaDecay(LRScheduler):
    """`learning_rate * lr_lambda(step)`.

    >>> paddle.optimizer.lr.LambdaDecay(0.5, lr_lambda=lambda step: 0.95**step)()
    0.5
    """

    def __init__(
        self,
        learning_rate: float,
        lr_lambda: Callable[[int], float],
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        check_callable(lr_lambda)
        self.lr_lambda = lr_lambda
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * self.lr_lambda(self.last_epoch)


class MultiplicativeDecay(LRScheduler):
    """Multiplied by `lr_lambda(step)` at each step.

    >>> paddle.optimizer.lr.MultiplicativeDecay(0.5, lr_lambda=lambda step: 0.95)()
    0.5
    """

    def __init__(
        self,
        learning_rate: float,
        lr_lambda: Callable[[int], float],
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        check_callable(lr_lambda)
        self.lr_lambda = lr_lambda
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        rate = self.base_lr
        for step in range(1, self.last_epoch + 1):
            rate = rate * self.lr_lambda(step)
        return rate


_FROM_PARTS = """
CosineAnnealingDecay CosineAnnealingWarmRestarts CyclicLR LRScheduler LinearLR OneCycleLR
ReduceOnPlateau
"""
set_public_names(__name__, also=_FROM_PARTS)
