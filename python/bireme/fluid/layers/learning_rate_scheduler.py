"""Learning rates that the program itself lets fall, a step a run.

Each function describes a schedule; the optimizer that is given one adds its ops to the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ... import _core
from ..._names import set_public_names


class Schedule(NamedTuple):
    """A schedule as the core takes it: its kind and its numbers.

    >>> paddle.enable_static()
    >>> paddle.fluid.layers.cosine_decay(0.1, 100, 10).kind
    'cosine'
    """

    kind: str
    arguments: dict[str, Any]


def noam_decay(d_model: float, warmup_steps: float, learning_rate: float = 1.0) -> Schedule:
    """`learning_rate * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)`.

    >>> paddle.enable_static()
    >>> x = paddle.fluid.data("x", [None, 1])
    >>> loss = paddle.mean(paddle.fluid.layers.fc(x, 1))
    >>> rate = paddle.fluid.layers.noam_decay(64, 100)
    >>> _ = paddle.fluid.optimizer.SGD(rate).minimize(loss)
    >>> rate.kind
    'noam'
    """
    return _schedule("noam", d_model=d_model, warmup_steps=warmup_steps, rate=learning_rate)


def exponential_decay(
    learning_rate: float, decay_steps: float, decay_rate: float, staircase: bool = False
) -> Schedule:
    """`learning_rate * decay_rate ** (step / decay_steps)`; `staircase` rounds the power down.

    >>> paddle.enable_static()
    >>> x = paddle.fluid.data("x", [None, 1])
    >>> loss = paddle.mean(paddle.fluid.layers.fc(x, 1))
    >>> rate = paddle.fluid.layers.exponential_decay(0.1, 1000, 0.5, staircase=True)
    >>> _ = paddle.fluid.optimizer.SGD(rate).minimize(loss)
    >>> rate.kind
    'exponential'
    """
    return _falling("exponential", learning_rate, decay_steps, decay_rate, staircase)


def natural_exp_decay(
    learning_rate: float, decay_steps: float, decay_rate: float, staircase: bool = False
) -> Schedule:
    """`learning_rate * exp(-decay_rate * step / decay_steps)`.

    >>> paddle.enable_static()
    >>> x = paddle.fluid.data("x", [None, 1])
    >>> loss = paddle.mean(paddle.fluid.layers.fc(x, 1))
    >>> rate = paddle.fluid.layers.natural_exp_decay(0.1, 1000, 0.5)
    >>> _ = paddle.fluid.optimizer.SGD(rate).minimize(loss)
    >>> rate.kind
    'natural_exp'
    """
    return _falling("natural_exp", learning_rate, decay_steps, decay_rate, staircase)


def inverse_time_decay(
    learning_rate: float, decay_steps: float, decay_rate: float, staircase: bool = False
) -> Schedule:
    """`learning_rate / (1 + decay_rate * step / decay_steps)`.

    >>> paddle.enable_static()
    >>> x = paddle.fluid.data("x", [None, 1])
    >>> loss = paddle.mean(paddle.fluid.layers.fc(x, 1))
    >>> rate = paddle.fluid.layers.inverse_time_decay(0.1, 1000, 0.5)
    >>> _ = paddle.fluid.optimizer.SGD(rate).minimize(loss)
    >>> rate.kind
    'inverse_time'
    """
    return _falling("inverse_time", learning_rate, decay_steps, decay_rate, staircase)


def polynomial_decay(
    learning_rate: float,
    decay_steps: float,
    end_learning_rate: float = 0.0001,
    power: float = 1.0,
    cycle: bool = False,
) -> Schedule:
    """From `learning_rate` to `end_learning_rate` in `decay_steps`; `cycle` starts over then.

    >>> paddle.enable_static()
    >>> x = paddle.fluid.data("x", [None, 1])
    >>> loss = paddle.mean(paddle.fluid.layers.fc(x, 1))
    >>> rate = paddle.fluid.layers.polynomial_decay(0.1, 1000)
    >>> _ = paddle.fluid.optimizer.SGD(rate).minimize(loss)
    >>> rate.kind
    'polynomial'
    """
    return _schedule(
        "polynomial",
        rate=learning_rate,
        decay_steps=decay_steps,
        end=end_learning_rate,
        power=power,
        cycle=cycle,
    )


def piecewise_decay(boundaries: Sequence[int], values: Sequence[float]) -> Schedule:
    """`values[i]` as long as the step is under `boundaries[i]`, at last the last value.

    >>> paddle.enable_static()
    >>> x = paddle.fluid.data("x", [None, 1])
    >>> loss = paddle.mean(paddle.fluid.layers.fc(x, 1))
    >>> rate = paddle.fluid.layers.piecewise_decay([100], [0.1, 0.01])
    >>> _ = paddle.fluid.optimizer.SGD(rate).minimize(loss)
    >>> rate.kind
    'piecewise'
    """
    if len(values) != len(boundaries) + 1:
        raise ValueError(
            f"there must be one more value than boundaries, not {len(values)} for {len(boundaries)}"
        )
    return _schedule("piecewise", boundaries=list(boundaries), values=list(values))


def cosine_decay(learning_rate: float, step_each_epoch: float, epochs: float) -> Schedule:
    """`learning_rate / 2 * (cos(pi * epoch / epochs) + 1)`.

    >>> paddle.enable_static()
    >>> x = paddle.fluid.data("x", [None, 1])
    >>> loss = paddle.mean(paddle.fluid.layers.fc(x, 1))
    >>> rate = paddle.fluid.layers.cosine_decay(0.1, 100, 10)
    >>> _ = paddle.fluid.optimizer.SGD(rate).minimize(loss)
    >>> rate.kind
    'cosine'
    """
    return _schedule("cosine", rate=learning_rate, step_each_epoch=step_each_epoch, epochs=epochs)


def linear_lr_warmup(
    learning_rate: float | Schedule, warmup_steps: float, start_lr: float, end_lr: float
) -> Schedule:
    """A straight line from `start_lr` to `end_lr`, then `learning_rate`, which may be a schedule.

    >>> paddle.enable_static()
    >>> x = paddle.fluid.data("x", [None, 1])
    >>> loss = paddle.mean(paddle.fluid.layers.fc(x, 1))
    >>> rate = paddle.fluid.layers.linear_lr_warmup(0.1, 50, 0.0, 0.1)
    >>> _ = paddle.fluid.optimizer.SGD(rate).minimize(loss)
    >>> rate.kind
    'linear_warmup'
    """
    if start_lr >= end_lr:
        raise ValueError(f"`start_lr` {start_lr} must be under `end_lr` {end_lr}")
    return _schedule(
        "linear_warmup", warmup_steps=warmup_steps, start=start_lr, end=end_lr, then=learning_rate
    )


def _falling(
    kind: str, rate: float, decay_steps: float, decay_rate: float, staircase: bool
) -> Schedule:
    return _schedule(
        kind, rate=rate, decay_steps=decay_steps, decay_rate=decay_rate, staircase=staircase
    )


def _schedule(kind: str, **arguments: Any) -> Schedule:
    if _core.in_dynamic_mode():
        raise RuntimeError(
            "schedules of `fluid.layers` are parts of a program: in eager mode use"
            " `paddle.optimizer.lr`"
        )
    return Schedule(kind, arguments)


set_public_names(__name__, but="Schedule")
