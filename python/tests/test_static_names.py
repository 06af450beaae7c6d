"""How variables of programs are named and kept: scripts and files of Paddle count on it."""

import bireme as paddle
import numpy as np
import pytest


@pytest.fixture
def programs():
    paddle.enable_static()
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        yield main, startup
    paddle.disable_static()


def metric_names() -> list[str]:
    score = paddle.static.data("score", [None, 2], "float32")
    label = paddle.static.data("label", [None, 1], "int64")
    return [count.name for count in paddle.static.auc(score, label)[2]]


def test_metrics_of_each_program_have_the_names_that_scripts_reset(programs):
    expected = [f"_generated_var_{number}" for number in range(4)]
    assert metric_names() == expected
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        assert metric_names() == expected
    # A second metric of one program counts on, with any other variable that has no name.
    assert paddle.static.create_global_var([1], 0.0, "float32").name == "_generated_var_4"
    assert metric_names()[0] == "_generated_var_5"


def test_programs_count_on_and_eager_mode_counts_anew():
    paddle.disable_static()
    paddle.enable_static()
    first = paddle.utils.unique_name.generate("mode_test")
    paddle.disable_static()
    eager = [paddle.utils.unique_name.generate("mode_test") for _ in range(2)]
    paddle.enable_static()
    paddle.enable_static()
    second = paddle.utils.unique_name.generate("mode_test")
    paddle.disable_static()
    assert (first, second) == ("mode_test_0", "mode_test_1")
    assert eager == ["mode_test_0", "mode_test_1"]
    # A layer made now has the names that checkpoints of Paddle have.
    assert paddle.nn.Linear(2, 2).weight.name == "linear_0.w_0"


@pytest.mark.parametrize("number", [np.float32(2.5), np.int64(3), np.int32(3), np.array(2.5)])
def test_numbers_of_numpy_are_not_kept_with_the_parameters(programs, number):
    main, _ = programs
    x = paddle.static.data("x", [None, 2], "float32")
    results = [x * number, number - x, x / number, x > number, number**x]
    assert not [var.name for var in main.list_vars() if var.persistable]
    values = np.array([[1.0, 4.0]], dtype="float32")
    number = np.float32(number)
    expected = [values * number, number - values, values / number, values > number, number**values]
    fetched = paddle.static.Executor().run(main, feed={"x": values}, fetch_list=results)
    for got, wanted in zip(fetched, expected):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_numbers_of_numpy_take_the_type_of_the_variable(programs):
    ids = paddle.static.data("ids", [None, 2], "int64")
    assert (ids * np.int32(2)).dtype == "int64"
    assert (ids + np.float32(2.0)).dtype == "int64"
    assert (ids * np.float64(2.0)).dtype == "float32"
