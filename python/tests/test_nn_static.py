"""Layers in programs: the same outputs as real Paddle's, with the same parameters."""

from __future__ import annotations

import json
import pathlib

import bireme as paddle
import numpy as np
import pytest
import training_cases

STORED = json.loads((pathlib.Path(__file__).parent / "data" / "trainings.json").read_text())


@pytest.mark.parametrize("batch", ["known", "open"])
@pytest.mark.parametrize("name", training_cases.LAYERS)
def test_layer_in_a_program(name: str, batch: str) -> None:
    text, shape = training_cases.LAYERS[name]
    stored = STORED["layers"][name]
    axis = 1 if "time_major=True" in text else 0
    open_shape = [-1 if batch == "open" and i == axis else n for i, n in enumerate(shape)]
    paddle.enable_static()
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        x = paddle.static.data("x", open_shape, "float32")
        layer = eval(f"paddle.nn.{text}", {"paddle": paddle})
        out = layer(x)
        out = out[0] if isinstance(out, (tuple, list)) else out
    assert [p.name for p in layer.parameters()] == stored["names"]
    executor = paddle.static.Executor()
    executor.run(startup)
    random = np.random.RandomState(3)
    values = {}
    for parameter in layer.parameters():
        value = random.uniform(-0.5, 0.5, parameter.shape).astype("float32")
        values[parameter.name] = np.abs(value) + 0.5 if parameter.name.endswith(".w_2") else value
    layer.set_state_dict(values, use_structured_name=False)
    given = np.random.RandomState(9).uniform(-1, 1, shape).astype("float32")
    (value,) = executor.run(main, feed={"x": given}, fetch_list=[out])
    np.testing.assert_allclose(np.ravel(value), stored["out"], rtol=1e-4, atol=1e-5)


def test_data_norm_says_what_only_gpus_heed() -> None:
    paddle.enable_static()
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        x = paddle.static.data("x", [None, 4])
        with pytest.warns(UserWarning, match="on GPUs only"):
            y = paddle.static.nn.data_norm(x, sync_stats=True)
        paddle.optimizer.SGD(0.1).minimize(paddle.mean(y))
