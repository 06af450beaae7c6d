"""`fit_a_line` by hand on the extension, and programs of a test's own."""

import numpy as np
import pytest
from bireme import _core

X = np.random.default_rng(0).normal(size=(20, 13)).astype("float32")
Y = (X @ np.arange(13, dtype="float32")[:, None] * 0.1 + 0.5).astype("float32")


@pytest.fixture
def fresh():
    """Programs, names and a scope of the test's own, in static mode."""
    main, startup, scope = _core.Program(), _core.Program(), _core.Scope()
    old = (
        _core.switch_main_program(main),
        _core.switch_startup_program(startup),
        _core.switch_names(_core.UniqueNames()),
        _core.switch_scope(scope),
    )
    _core.enable_static()
    yield
    _core.disable_static()
    _core.switch_main_program(old[0])
    _core.switch_startup_program(old[1])
    _core.switch_names(old[2])
    _core.switch_scope(old[3])


def fit_a_line():
    """`mean((x · w + b - y)²)` by hand; returns the prediction and the loss."""
    block = _core.default_main_program().global_block()
    x = block.create_var("x", [-1, 13], "float32", is_data=True)
    y = block.create_var("y", [-1, 1], "float32", is_data=True)
    w = _core.create_parameter([13, 1], "float32", "fc_0.w_0", ("xavier", {"seed": 1}))
    b = _core.create_parameter([1], "float32", "fc_0.b_0", ("constant", {"value": 0.0}))
    block.append_op("mul", {"X": [x], "Y": w}, {"Out": ["fc_0.tmp_0"]}, {"x_num_col_dims": 1})
    add = {"X": ["fc_0.tmp_0"], "Y": [b]}
    block.append_op("elementwise_add", add, {"Out": ["pred"]}, {"axis": 1})
    block.append_op("elementwise_sub", {"X": ["pred"], "Y": [y]}, {"Out": ["miss"]})
    block.append_op("square", {"X": ["miss"]}, {"Out": ["cost"]})
    block.append_op("mean", {"X": ["cost"]}, {"Out": ["loss"]})
    return block.var("pred"), block.var("loss")


def trained(steps=100, kind="sgd", **config):
    pred, loss = fit_a_line()
    optimizer = _core.Optimizer(kind, {"learning_rate": 0.05, **config})
    optimizer.minimize(loss)
    executor = _core.Executor(_core.CPUPlace())
    executor.run(_core.default_startup_program())
    main = _core.default_main_program()
    losses = [float(executor.run(main, {"x": X, "y": Y}, [loss])[0]) for _ in range(steps)]
    return executor, pred, losses
