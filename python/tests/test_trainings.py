"""Optimizers, schedules, layers and `Model` against small trainings of real Paddle."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import bireme as paddle
import numpy as np
import pytest
import training_cases

STORED = json.loads((pathlib.Path(__file__).parent / "data" / "trainings.json").read_text())


def _assert_same(actual: Any, wanted: Any, what: str) -> None:
    if isinstance(wanted, dict):
        assert sorted(actual) == sorted(wanted), what
        for key, value in wanted.items():
            _assert_same(actual[key], value, f"{what}: {key}")
    elif isinstance(wanted, list) and wanted and isinstance(wanted[0], list):
        assert len(actual) == len(wanted), what
        for i, value in enumerate(wanted):
            _assert_same(actual[i], value, f"{what} {i}")
    elif isinstance(wanted, list) and wanted and isinstance(wanted[0], float):
        np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-5, err_msg=what)
    else:
        assert actual == wanted, what


@pytest.mark.parametrize("name", training_cases.OPTIMIZERS)
def test_optimizer(name: str) -> None:
    actual = training_cases.run_optimizer(paddle, training_cases.OPTIMIZERS[name])
    _assert_same(actual, STORED["optimizers"][name], name)


@pytest.mark.parametrize("name", training_cases.SCHEDULES)
def test_schedule(name: str) -> None:
    actual = training_cases.run_schedule(paddle, training_cases.SCHEDULES[name])
    _assert_same(actual, STORED["schedules"][name], name)


@pytest.mark.parametrize("name", training_cases.LAYERS)
def test_layer(name: str) -> None:
    actual = training_cases.run_layer(paddle, *training_cases.LAYERS[name])
    _assert_same(actual, STORED["layers"][name], name)


@pytest.mark.parametrize("name", training_cases.FITS)
def test_fit(name: str) -> None:
    actual = training_cases.run_fit(paddle, training_cases.FITS[name])
    _assert_same(actual, STORED["fits"][name], name)


@pytest.mark.parametrize("expression", training_cases.PENALISED)
def test_gradients_of_gradients(expression: str) -> None:
    wanted = STORED["penalised"][expression]
    _assert_same(training_cases.run_penalised(paddle, expression), wanted, expression)


@pytest.mark.parametrize("name", training_cases.SECOND_ORDER)
def test_training_through_gradients(name: str) -> None:
    actual = training_cases.SECOND_ORDER[name](paddle)
    _assert_same(actual, STORED["second order"][name], name)
