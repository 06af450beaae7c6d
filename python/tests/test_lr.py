"""Schedules: states, reports, bad settings (their values are in `test_trainings.py`)."""

from __future__ import annotations

import bireme as paddle
import numpy as np
import pytest
from bireme.optimizer import lr


def test_states_go_on() -> None:
    first = lr.LinearWarmup(lr.StepDecay(0.5, 2), 3, 0.0, 0.5)
    for _ in range(5):
        first.step()
    second = lr.LinearWarmup(lr.StepDecay(0.5, 2), 3, 0.0, 0.5)
    state = first.state_dict()
    assert state["LinearWarmup_LR"]["last_epoch"] == 2
    second.set_state_dict(state)
    first.step()
    second.step()
    assert first() == second()
    assert first.state_dict() == second.state_dict()


def test_states_of_another_kind_are_refused() -> None:
    with pytest.raises(RuntimeError, match="last_lr"):
        lr.StepDecay(0.5, 2).set_state_dict({"last_epoch": 1})
    with pytest.warns(UserWarning, match="unused"):
        lr.StepDecay(0.5, 2).set_state_dict({"last_epoch": 1, "last_lr": 0.1, "more": 3})


def test_verbose_reports_each_step(capsys: pytest.CaptureFixture[str]) -> None:
    schedule = lr.ExponentialDecay(0.5, 0.5, verbose=True)
    schedule.step()
    assert capsys.readouterr().out == (
        "Epoch 0: ExponentialDecay set learning rate to 0.5.\n"
        "Epoch 1: ExponentialDecay set learning rate to 0.25.\n"
    )


def test_a_schedule_of_one_s_own() -> None:
    class Stairs(lr.LRScheduler):
        def get_lr(self) -> float:
            return self.base_lr / (1 + self.last_epoch // 2)

    schedule = Stairs(1.0)
    rates = []
    for _ in range(4):
        rates.append(schedule())
        schedule.step()
    assert rates == [1.0, 1.0, 0.5, 0.5]


@pytest.mark.parametrize("metric", [1.0, np.float64(1.0), np.ones(1), "tensor"])
def test_plateau(metric) -> None:
    metric = paddle.to_tensor(1.0) if isinstance(metric, str) else metric
    schedule = lr.ReduceOnPlateau(1.0, factor=0.5, patience=1, cooldown=1)
    rates = []
    for _ in range(6):
        schedule.step(metric)
        rates.append(schedule())
    assert rates == [1.0, 1.0, 0.5, 0.5, 0.5, 0.25]
    assert sorted(schedule.state_dict()) == [
        "best",
        "cooldown_counter",
        "last_epoch",
        "last_lr",
        "num_bad_epochs",
    ]


def test_plateau_of_growing_metrics() -> None:
    schedule = lr.ReduceOnPlateau(1.0, "max", 0.5, 0, 0.1, "abs", min_lr=0.4)
    for metric in (1.0, 1.2, 1.25, 1.26):
        schedule.step(metric)
    assert schedule() == 0.4
    with pytest.raises(AssertionError, match="mean"):
        schedule.step(np.ones(3))
    with pytest.raises(TypeError):
        schedule.step("high")


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: lr.NoamDecay(0, 4), ValueError),
        (lambda: lr.PiecewiseDecay([], [1.0]), ValueError),
        (lambda: lr.PiecewiseDecay([1, 2], [1.0]), ValueError),
        (lambda: lr.NaturalExpDecay(0.5, -1.0), AssertionError),
        (lambda: lr.PolynomialDecay(0.5, 0), AssertionError),
        (lambda: lr.PolynomialDecay(0.5, 2, power=0.0), AssertionError),
        (lambda: lr.LinearWarmup("fast", 2, 0.0, 1.0), TypeError),
        (lambda: lr.LinearWarmup(0.5, 2, 1.0, 0.5), AssertionError),
        (lambda: lr.ExponentialDecay(0.5, 1.5), AssertionError),
        (lambda: lr.ExponentialDecay(-0.5, 0.5), ValueError),
        (lambda: lr.ExponentialDecay("fast", 0.5), TypeError),
        (lambda: lr.MultiStepDecay(0.5, [3, 2]), ValueError),
        (lambda: lr.MultiStepDecay(0.5, 3), TypeError),
        (lambda: lr.StepDecay(0.5, 2, gamma=1.5), ValueError),
        (lambda: lr.StepDecay(0.5, 2.5), TypeError),
        (lambda: lr.LambdaDecay(0.5, 3), TypeError),
        (lambda: lr.ReduceOnPlateau(0.5, mode="best"), ValueError),
        (lambda: lr.ReduceOnPlateau(0.5, factor=2.0), ValueError),
        (lambda: lr.CosineAnnealingDecay(0.5, 2.5), TypeError),
        (lambda: lr.OneCycleLR(1.0, 10, phase_pct=0.6, three_phase=True), ValueError),
        (lambda: lr.OneCycleLR(1.0, 10, anneal_strategy="steps"), ValueError),
        (lambda: lr.CyclicLR(0.5, 1.0, 0), ValueError),
        (lambda: lr.CyclicLR(0.5, 1.0, 2, mode="round"), ValueError),
        (lambda: lr.LinearLR(0.5, 5, start_factor=2.0), ValueError),
        (lambda: lr.CosineAnnealingWarmRestarts(0.5, 0), ValueError),
    ],
)
def test_bad_settings_are_refused(make, error) -> None:
    with pytest.raises(error):
        make()


def test_one_cycle_ends() -> None:
    schedule = lr.OneCycleLR(1.0, 4)
    for _ in range(4):
        schedule.step()
    with pytest.raises(ValueError, match="past"):
        schedule.step()
