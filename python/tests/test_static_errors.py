"""Bad input to programs and executors: the error says what is wrong and where."""

import bireme as paddle
import numpy as np
import pytest
from bireme import static

X, Y = np.ones([4, 13], "float32"), np.ones([4, 1], "float32")


@pytest.fixture
def trained():
    """An executor and the loss of a small regression in the default program."""
    paddle.enable_static()
    x = static.data("x", [None, 13])
    y = static.data("y", [None, 1])
    loss = paddle.mean(paddle.square(paddle.subtract(static.nn.fc(x, 1), y)))
    paddle.optimizer.SGD(0.01).minimize(loss)
    return static.Executor(), loss


def start(trained):
    exe, loss = trained
    exe.run(static.default_startup_program())
    return exe, loss


@pytest.mark.parametrize(
    ("feed", "message"),
    [
        ({"x": X.astype("float64"), "y": Y}, r"feed `x`: expected float32 .* given float64"),
        ({"x": X[:, :3], "y": Y}, r"feed `x`: .*\[-1, 13\].* given float32 of shape \[4, 3\]"),
        ({"x": X}, "feed `y`: the program reads it, so it must be fed"),
        ({"x": X, "y": Y, "z": Y}, "feed `z`: the program has no such variable"),
    ],
)
def test_a_wrong_feed_is_named(trained, feed, message):
    exe, loss = start(trained)
    with pytest.raises(ValueError, match=message):
        exe.run(feed=feed, fetch_list=[loss])


def test_running_before_the_startup_program_says_so(trained):
    exe, loss = trained
    with pytest.raises(RuntimeError, match="`fc_0.w_0` has no value: run the startup program"):
        exe.run(feed={"x": X, "y": Y}, fetch_list=[loss])


def test_saving_before_the_startup_program_says_so(trained, tmp_path):
    with pytest.raises(RuntimeError, match="run the startup program first"):
        static.save(static.default_main_program(), str(tmp_path / "model"))


def test_fetching_an_unknown_name_says_so(trained):
    exe, _ = start(trained)
    with pytest.raises(ValueError, match="`nothing`"):
        exe.run(feed={"x": X, "y": Y}, fetch_list=["nothing"])


@pytest.mark.parametrize("bad", [3, np.ones(1), object()])
def test_fetching_something_else_is_refused(trained, bad):
    exe, _ = trained
    with pytest.raises(TypeError, match="`fetch_list` must hold variables or their names"):
        exe.run(feed={"x": X, "y": Y}, fetch_list=[bad])


def test_a_feed_for_two_devices_is_refused(trained):
    exe, _ = trained
    with pytest.raises(ValueError, match="holds 2 dictionaries"):
        exe.run(feed=[{"x": X}, {"x": X}])


def test_a_program_of_another_kind_is_refused(trained):
    with pytest.raises(TypeError, match="`program` must be a `Program`, not str"):
        trained[0].run("main")


def test_layers_of_programs_refuse_eager_mode():
    with pytest.raises(RuntimeError, match=r"`static.data` builds a program: call `paddle.enable"):
        static.data("x", [1])


def test_fc_needs_to_know_the_width_of_its_input():
    paddle.enable_static()
    x = static.data("x", [None, None])
    with pytest.raises(ValueError, match="give its input known sizes after the batch"):
        static.nn.fc(x, 2)


def test_an_unknown_activation_is_named_with_the_nearest():
    paddle.enable_static()
    x = static.data("x", [None, 3])
    with pytest.raises(ValueError, match="no activation `sigmiod`: did you mean `sigmoid`"):
        static.nn.fc(x, 2, activation="sigmiod")


@pytest.mark.parametrize("name", ["py_func", "row_conv"])
def test_missing_layers_say_so(name):
    with pytest.raises(AttributeError, match=f"`paddle.static.nn.{name}` is not in Bireme"):
        getattr(static.nn, name)


def test_settings_of_strategies_are_checked():
    strategy = static.BuildStrategy()
    strategy.fuse_bn_act_ops = True
    with pytest.raises(AttributeError, match="did you mean `fuse_bn_act_ops`"):
        strategy.fuse_bn_act_op = True
    with pytest.raises(NotImplementedError, match="`num_iteration_per_run`"):
        static.ExecutionStrategy().num_iteration_per_run = 2


def test_a_gpu_that_is_not_there_is_an_error():
    if paddle.is_compiled_with_cuda():
        pytest.skip("there is a GPU")
    with pytest.raises(RuntimeError, match="GPU"):
        static.cuda_places()


def test_devices_of_a_guard_are_checked():
    for wrong, problem in (("cpu:1", "Should not set device id"), ("tpu", "But received tpu")):
        with pytest.raises(ValueError, match=problem), static.device_guard(wrong):
            pass


def test_several_places_are_refused():
    compiled = static.CompiledProgram(static.Program())
    with pytest.raises(NotImplementedError, match="one process runs on one place"):
        compiled.with_data_parallel(places=static.cpu_places(2))


def test_a_state_of_another_shape_is_refused(trained):
    start(trained)
    state = {"fc_0.w_0": np.ones([2, 2], "float32")}
    with pytest.raises(RuntimeError, match=r"`fc_0.w_0` cannot take a value of shape \(2, 2\)"):
        static.set_program_state(static.default_main_program(), state)


def test_an_executor_runs_on_a_place():
    assert isinstance(paddle.static.Executor("cpu").place, paddle.CPUPlace)
    with pytest.raises(TypeError, match="a place such as"):
        paddle.static.Executor(3)
    with pytest.raises(ValueError, match="nonsense"):
        paddle.static.Executor("nonsense")
    with pytest.raises(paddle.UnavailableError, match="GPU"):
        paddle.static.Executor("gpu:0")


def test_environment_variables_that_are_no_numbers_are_named(monkeypatch):
    monkeypatch.setenv("CPU_NUM", "two")
    with pytest.raises(ValueError, match="`CPU_NUM` is 'two'"):
        paddle.static.cpu_places()
    monkeypatch.setenv("FLAGS_selected_gpus", "first")
    with pytest.raises(ValueError, match="FLAGS_selected_gpus"):
        paddle.static.cuda_places()
