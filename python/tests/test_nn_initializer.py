"""Initialisers: how values are spread, and what they are by default."""

from __future__ import annotations

import math

import bireme as paddle
import numpy as np
import pytest
from bireme.nn import initializer

ROWS, COLUMNS = 200, 300


@pytest.mark.parametrize(
    ("text", "mean", "deviation", "limit"),
    [
        ("Normal(1.0, 0.1)", 1.0, 0.1, None),
        ("TruncatedNormal(0.0, 1.0)", 0.0, 0.88, 2.0),
        ("Uniform(-2.0, 2.0)", 0.0, 4 / math.sqrt(12), 2.0),
        ("XavierNormal()", 0.0, math.sqrt(2 / 500), None),
        ("XavierUniform()", 0.0, math.sqrt(2 / 500), math.sqrt(6 / 500)),
        ("XavierUniform(fan_in=10, fan_out=20)", 0.0, math.sqrt(2 / 30), math.sqrt(6 / 30)),
        ("KaimingNormal()", 0.0, math.sqrt(2 / 200), None),
        ("KaimingUniform()", 0.0, math.sqrt(2 / 200), math.sqrt(6 / 200)),
        ("KaimingUniform(fan_in=50)", 0.0, math.sqrt(2 / 50), math.sqrt(6 / 50)),
        ("KaimingNormal(None, 1.0, 'leaky_relu')", 0.0, math.sqrt(1 / 200), None),
        ("KaimingNormal(nonlinearity='tanh')", 0.0, 5 / 3 / math.sqrt(200), None),
        ("Orthogonal()", 0.0, 1 / math.sqrt(300), None),
    ],
)
@pytest.mark.parametrize("mode", ["eager", "static"])
def test_spread(text, mean, deviation, limit, mode) -> None:
    attr = paddle.ParamAttr(initializer=eval(f"initializer.{text}"))
    if mode == "static":
        paddle.enable_static()
    weight = paddle.create_parameter([ROWS, COLUMNS], "float32", attr=attr)
    if mode == "static":
        executor = paddle.static.Executor()
        executor.run(paddle.static.default_startup_program())
        values = np.array(paddle.static.global_scope().find_var(weight.name).get_tensor())
    else:
        values = weight.numpy()
    assert values.mean() == pytest.approx(mean, abs=0.02)
    assert values.std() == pytest.approx(deviation, rel=0.03)
    if limit is not None:
        assert np.abs(values).max() <= limit * 1.0001
        assert np.abs(values).max() > limit * 0.95


def test_filters_count_their_windows() -> None:
    weight = paddle.nn.Conv2D(8, 64, 5, weight_attr=initializer.XavierUniform()).weight.numpy()
    limit = math.sqrt(6 / (8 * 25 + 64 * 25))
    assert limit * 0.95 < np.abs(weight).max() <= limit * 1.0001
    default = paddle.nn.Conv2D(8, 64, 5).weight.numpy()
    assert default.std() == pytest.approx(math.sqrt(2 / (8 * 25)), rel=0.05)


def test_defaults() -> None:
    layer = paddle.nn.Linear(50, 50)
    assert np.abs(layer.weight.numpy()).max() <= math.sqrt(6 / 100)
    assert not np.any(layer.bias.numpy())


def test_global_initialisers_come_before_those_of_layers() -> None:
    initializer.set_global_initializer(initializer.Constant(2.0), initializer.Constant(3.0))
    try:
        layer = paddle.nn.Linear(2, 2)
        norm = paddle.nn.LayerNorm(2)
        own = paddle.nn.Linear(2, 2, weight_attr=initializer.Constant(5.0))
    finally:
        initializer.set_global_initializer(None)
    assert np.all(layer.weight.numpy() == 2.0) and np.all(layer.bias.numpy() == 3.0)
    assert np.all(norm.weight.numpy() == 2.0)
    assert np.all(own.weight.numpy() == 5.0)


def test_bad_values_are_refused() -> None:
    with pytest.raises(ValueError, match="shape"):
        paddle.nn.Linear(2, 2, weight_attr=initializer.Assign(np.ones(3)))
    with pytest.raises(TypeError, match="array"):
        initializer.Assign(3.0)
    with pytest.raises(ValueError, match="high"):
        initializer.Uniform(2.0, 1.0)
    with pytest.raises(TypeError, match="initialiser"):
        initializer.set_global_initializer(3.0)
    with pytest.raises(ValueError, match="nonlinearity"):
        initializer.calculate_gain("sine")
