"""Functions of tensors and networks against values of real Paddle, eagerly and in programs."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import bireme as paddle
import numpy as np
import pytest
import value_cases

DATA = pathlib.Path(__file__).parent / "data"


def _stored() -> list[Any]:
    cases = []
    for family, expressions in value_cases.CASES.items():
        expected = json.loads((DATA / f"values_{family}.json").read_text())
        unused = set(expected) - set(expressions)
        assert not unused, f"values_{family}.json has values that no case asks for: {unused}"
        cases += [pytest.param(text, expected.get(text), id=text) for text in expressions]
    return cases


CASES = _stored()

#: Needs values while the program is built, or has a shape that only values tell.
EAGER_ONLY = (
    "bincount",
    "searchsorted",
    "paddle.to_tensor([True",
    "unique",
    # Paddle's rule in programs: labels are ignored on average only if the index is not negative.
    "sigmoid_focal_loss",
)


#: The inputs that stand for batches: programs may leave their first size open.
BATCHES = [
    "x",
    "y",
    "p",
    "u",
    "b",
    "d",
    "label",
    "picture",
    "wave",
    "n",
    "k",
    "c",
    "classes",
    "column",
    "i",
]

#: Computes with sizes that an open batch does not tell.
NEEDS_SIZES = (
    "put_along_axis",
    "scatter_nd_add",
    "tensordot",
    "select_scatter",
    "index_put",
    "take(",
)


def _wanted(expression: str, stored: dict[str, Any] | None) -> dict[str, Any]:
    assert stored is not None, (
        f"real Paddle has not computed `{expression}`: run tools/paddle_values.py"
    )
    return stored


def _array(stored: dict[str, Any], dtype: str) -> np.ndarray:
    return np.array(stored["values"], dtype).reshape(stored["shape"])


def _assert_close(actual: np.ndarray, stored: dict[str, Any], what: str) -> None:
    wanted = _array(stored, actual.dtype.name)
    assert list(actual.shape) == stored["shape"], f"shape of {what}"
    np.testing.assert_allclose(actual, wanted, rtol=2e-5, atol=2e-6, err_msg=what)


@pytest.mark.parametrize(("expression", "stored"), CASES)
def test_eager(expression: str, stored: dict[str, Any] | None) -> None:
    stored = _wanted(expression, stored)
    result = value_cases.evaluate(paddle, expression)
    assert result["dtype"] == stored["dtype"]
    _assert_close(result["out"], stored["out"], expression)
    for name, grad in stored.get("grads", {}).items():
        if name not in result.get("grads", {}):
            assert not np.any(grad["values"]), f"gradient of {name}"
            continue
        _assert_close(result["grads"][name], grad, f"gradient of {name}")


@pytest.mark.parametrize("batch", ["known", "open"])
@pytest.mark.parametrize(("expression", "stored"), CASES)
def test_in_a_program(expression: str, stored: dict[str, Any] | None, batch: str) -> None:
    stored = _wanted(expression, stored)
    if any(part in expression for part in EAGER_ONLY):
        pytest.skip("needs values while the program is built")
    if batch == "open" and any(part in expression for part in NEEDS_SIZES):
        pytest.skip("computes with the size of the batch")
    names = value_cases.used_inputs(expression)
    paddle.enable_static()
    try:
        main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(main, startup):
            inputs = {
                name: paddle.static.data(
                    name,
                    [-1 if batch == "open" and name in BATCHES else first, *rest],
                    value_cases.INPUTS[name].dtype.name,
                )
                for name in names
                for first, *rest in [value_cases.INPUTS[name].shape]
            }
            out = eval(expression, {"paddle": paddle, "F": paddle.nn.functional, **inputs})
        executor = paddle.static.Executor()
        executor.run(startup)
        feed = {name: value_cases.INPUTS[name] for name in names}
        (value,) = executor.run(main, feed=feed, fetch_list=[out])
    finally:
        paddle.disable_static()
    # The executor returns one element for a scalar: programs written for 1.x index it.
    value = np.asarray(value)
    scalar = value.shape == (1,) and not stored["out"]["shape"]
    _assert_close(value.reshape(()) if scalar else value, stored["out"], expression)
