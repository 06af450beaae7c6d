"""Conditions, loops and arrays in programs: values, gradients beside eager mode, files."""

import json
import pathlib

import bireme as paddle
import numpy as np
import pytest
from bireme import fluid, static
from flow_cases import FACTORS, FUNCTIONS, W, X, repeated

DATA = pathlib.Path(__file__).parent / "data" / "control_flow"
STORED = json.loads((DATA / "values.json").read_text())


@pytest.fixture(autouse=True)
def programs():
    paddle.enable_static()
    with (
        static.program_guard(static.Program(), static.Program()),
        static.scope_guard(static.Scope()),
    ):
        yield
    paddle.disable_static()


def data():
    x = static.data("x", [2, 3])
    x.stop_gradient = False
    return x


def weight():
    init = paddle.nn.initializer.Assign(W)
    return static.create_parameter([3, 3], "float32", name="w", default_initializer=init)


def eager(function, x):
    """Value and gradients of the function where conditions are Python's."""
    paddle.disable_static()
    x = paddle.to_tensor(x, stop_gradient=False)
    w = paddle.to_tensor(W, stop_gradient=False)
    y = function(paddle, x, w)
    paddle.mean(y * y).backward()
    paddle.enable_static()
    return [y.numpy(), x.gradient(), W * 0 if w.grad is None else w.gradient()]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_values_and_gradients_are_those_of_eager_mode_and_of_paddle(function, tmp_path):
    x, w = data(), weight()
    y = function(paddle, x, w)
    forward = static.default_main_program().clone()
    loss = paddle.mean(y * y)
    grads = static.gradients([loss], [x, w])
    executor = static.Executor(paddle.CPUPlace())
    executor.run(static.default_startup_program())
    for factor in FACTORS:
        feed = {"x": X * np.float32(factor)}
        found = executor.run(feed=feed, fetch_list=[y, *grads])
        stored = STORED[f"{function.__name__} {factor}"]
        for mine, theirs, there in zip(found, eager(function, feed["x"]), stored, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(mine, there, rtol=1e-4, atol=1e-5)
        # As a file.
        y_there = forward.global_block().var(y.name)
        prefix = str(tmp_path / "model")
        static.save_inference_model(
            prefix, [forward.global_block().var("x")], [y_there], executor, program=forward
        )
        program, feeds, fetches = static.load_inference_model(prefix, executor)
        loaded = executor.run(program, feed={feeds[0]: feed["x"]}, fetch_list=fetches)
        np.testing.assert_array_equal(loaded[0], found[0])


@pytest.mark.parametrize("function", FUNCTIONS)
def test_programs_of_real_paddle_run(function):
    executor = static.Executor(paddle.CPUPlace())
    prefix = str(DATA / function.__name__)
    program, feeds, fetches = static.load_inference_model(prefix, executor)
    for factor in FACTORS:
        feed = {feeds[0]: X * np.float32(factor)}
        (found,) = executor.run(program, feed=feed, fetch_list=fetches)
        stored = STORED[f"{function.__name__} {factor}"][0]
        np.testing.assert_allclose(found, stored, rtol=1e-4, atol=1e-6)


def test_a_parameter_of_a_loop_is_trained():
    x, w = data(), weight()
    loss = paddle.mean(repeated(paddle, x, w) ** 2)
    paddle.optimizer.SGD(0.1).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    losses = [float(executor.run(feed={"x": X}, fetch_list=[loss])[0]) for _ in range(20)]
    assert losses[-1] < losses[0] / 2


def test_a_sum_that_starts_as_a_constant_has_a_gradient():
    x = data()
    total = paddle.zeros([2, 3])
    _, total = static.nn.while_loop(
        lambda i, total: i < 4,
        lambda i, total: [i + 1, total + x],
        [paddle.zeros([1], "int64"), total],
    )
    (grad,) = static.gradients([paddle.sum(total)], [x])
    assert static.Executor().run(feed={"x": X}, fetch_list=[grad])[0].tolist() == [[4.0] * 3] * 2


def test_a_loop_does_not_change_what_it_started_from_and_may_swap():
    a, b = paddle.full([1], 1.0), paddle.full([1], 2.0)
    _, one, two = static.nn.while_loop(
        lambda i, a, b: i < 3, lambda i, a, b: [i + 1, b, a], [paddle.zeros([1], "int64"), a, b]
    )
    values = static.Executor().run(fetch_list=[a, b, one, two])
    assert [float(value) for value in values] == [1.0, 2.0, 2.0, 1.0]


def test_sizes_may_change_from_run_to_run():
    x = data()
    _, grown = static.nn.while_loop(
        lambda i, y: i < 3,
        lambda i, y: [i + 1, paddle.concat([y * y, x])],
        [paddle.zeros([1], "int64"), x],
    )
    assert grown.shape == (-1, 3)
    (grad,) = static.gradients([paddle.sum(grown)], [x])
    value, slope = static.Executor().run(feed={"x": X}, fetch_list=[grown, grad])
    expected = np.concatenate([X**8, X**4, X**2, X])
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    np.testing.assert_allclose(slope, 8 * X**7 + 4 * X**3 + 2 * X + 1, rtol=1e-4)


def test_while_of_fluid_writes_into_variables_around_it():
    x, w = data(), weight()
    i = fluid.layers.fill_constant([1], "int64", 0)
    n = fluid.layers.fill_constant([1], "int64", 3)
    y = fluid.layers.assign(x)
    go = fluid.layers.less_than(i, n)
    with fluid.layers.While(go).block():
        fluid.layers.assign(paddle.tanh(paddle.matmul(y, w)), y)
        fluid.layers.increment(i)
        fluid.layers.less_than(i, n, cond=go)
    (grad,) = static.gradients([paddle.mean(y)], [w])
    executor = static.Executor()
    executor.run(static.default_startup_program())
    value, slope = executor.run(feed={"x": X}, fetch_list=[y, grad])
    expected = X
    for _ in range(3):
        expected = np.tanh(expected @ W)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    assert np.abs(slope).sum() > 0
    with (
        pytest.raises(ValueError, match="does not write its condition"),
        fluid.layers.While(go).block(),
    ):
        fluid.layers.increment(i)


def test_switch_sets_a_persistable_variable():
    rate = static.create_global_var([1], 0.0, "float32", persistable=True, name="rate")
    step = static.data("step", [1])
    with fluid.layers.Switch() as switch:
        for bound, value in ((1.0, 0.1), (2.0, 0.2)):
            with switch.case(step < bound):
                fluid.layers.assign(fluid.layers.fill_constant([1], "float32", value), rate)
        with switch.default():
            fluid.layers.assign(fluid.layers.fill_constant([1], "float32", 0.3), rate)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    for at, expected in ((0.5, 0.1), (1.5, 0.2), (7.0, 0.3)):
        feed = {"step": np.array([at], "float32")}
        assert executor.run(feed=feed, fetch_list=[rate])[0][0] == np.float32(expected)


def test_a_recurrent_layer_of_steps():
    x = static.data("seq", [4, 2, 3])
    x.stop_gradient = False
    w = weight()
    rnn = fluid.layers.StaticRNN()
    with rnn.step():
        now = rnn.step_input(x)
        hidden = rnn.memory(shape=[-1, 3], batch_ref=now)
        new = paddle.tanh(paddle.matmul(hidden, w) + now)
        rnn.update_memory(hidden, new)
        rnn.step_output(new)
    out = rnn()
    (slope,) = static.gradients([paddle.sum(out)], [x])
    executor = static.Executor()
    executor.run(static.default_startup_program())
    values = np.stack([X, X * 2, -X, X + 1])
    found, slope = executor.run(feed={"seq": values}, fetch_list=[out, slope])
    state, expected = X * 0, []
    for value in values:
        state = np.tanh(state @ W + value)
        expected.append(state)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    np.testing.assert_allclose(slope[-1], 1 - expected[-1] ** 2, rtol=1e-4, atol=1e-6)


def test_tables_with_sparse_gradients_in_a_branch():
    ids = static.data("ids", [None, 1], "int64")
    go = static.data("go", [1], "bool")

    def looked_up():
        return paddle.mean(static.nn.embedding(ids, [10, 4], is_sparse=True))

    loss = paddle.mean(static.nn.cond(go, looked_up, lambda: paddle.zeros([])))
    paddle.optimizer.SGD(1.0).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    (table,) = static.default_main_program().all_parameters()

    def read():
        return np.array(static.global_scope().find_var(table.name).get_tensor())

    before = read()
    feed = {"ids": np.array([[1], [3]]), "go": np.array([False])}
    executor.run(feed=feed, fetch_list=[loss])
    np.testing.assert_array_equal(read(), before)
    executor.run(feed={**feed, "go": np.array([True])}, fetch_list=[loss])
    assert sorted(np.unique(np.nonzero(read() - before)[0])) == [1, 3]


def test_what_does_not_fit_is_refused():
    x = data()
    yes = paddle.sum(x) > 0
    with pytest.raises(TypeError, match="must be bool, not float32"):
        static.nn.cond(paddle.sum(x), lambda: x, lambda: x)
    with pytest.raises(ValueError, match="1 values in one case and 2"):
        static.nn.cond(yes, lambda: [x], lambda: [x, x])
    with pytest.raises(TypeError, match="float32 if true and int64 if not"):
        static.nn.cond(yes, lambda: x, lambda: paddle.cast(x, "int64"))
    with pytest.raises(TypeError, match="returns nothing"):
        static.nn.cond(yes, lambda: x, lambda: None)
    with pytest.raises(ValueError, match="number of dimensions must stay"):
        static.nn.while_loop(lambda y: paddle.sum(y) < 3, lambda y: [paddle.sum(y)], [x])
    with pytest.raises(ValueError, match="at least one tensor"):
        static.nn.while_loop(lambda: True, list, [])
    with pytest.raises(TypeError, match="takes an array, not"):
        paddle.tensor.array_length(x)


def test_a_place_of_an_array_that_was_not_written_is_an_error():
    array = paddle.tensor.array_write(data(), 2)
    item = paddle.tensor.array_read(array, 1)
    with pytest.raises(RuntimeError, match="place 1 of the array was not written: it has 3"):
        static.Executor().run(feed={"x": X}, fetch_list=[item])
