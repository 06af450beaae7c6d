"""Programs and values to files and back."""

import os

import bireme as paddle
import numpy as np
import pytest
from bireme import static
from bireme.static.io import is_parameter, is_persistable, load_vars, save_vars

X = np.arange(6, dtype="float32").reshape(2, 3)


@pytest.fixture
def model():
    """A trained program with momentum: executor, input, output."""
    paddle.enable_static()
    x = static.data("x", [None, 3])
    out = static.nn.fc(x, 2, activation="tanh")
    paddle.optimizer.Momentum(0.1).minimize(paddle.mean(out))
    exe = static.Executor()
    exe.run(static.default_startup_program())
    exe.run(feed={"x": X}, fetch_list=[out])
    return exe, x, out


def values():
    held = [var for var in static.default_main_program().list_vars() if is_persistable(var)]
    scope = static.global_scope()
    return {var.name: np.array(scope.find_var(var.name).get_tensor()) for var in held}


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def test_save_and_load_bring_everything_back(model, tmp_path):
    exe, _, out = model
    prefix = str(tmp_path / "folder" / "model")
    before = values()
    static.save(static.default_main_program(), prefix)
    exe.run(feed={"x": X}, fetch_list=[out])
    assert any((before[name] != value).any() for name, value in values().items())
    static.load(static.default_main_program(), prefix, exe)
    assert_same(values(), before)
    assert_same(static.load_program_state(prefix), before)


def test_saved_parameters_and_state_are_apart(model, tmp_path):
    prefix = str(tmp_path / "model")
    static.save(static.default_main_program(), prefix)
    parameters = paddle.load(prefix + ".pdparams", return_numpy=True)
    assert sorted(parameters) == ["fc_0.b_0", "fc_0.w_0"]
    state = paddle.load(prefix + ".pdopt", return_numpy=True)
    assert "learning_rate_0" in state and "fc_0.w_0" not in state


def test_load_names_what_is_missing(model, tmp_path):
    prefix = str(tmp_path / "model")
    static.save(static.default_main_program(), prefix)
    other = static.Program()
    with static.program_guard(other, static.Program()):
        static.nn.fc(static.data("z", [None, 3]), 4, weight_attr="another")
    with pytest.raises(RuntimeError, match="has no value for another"):
        static.load(other, prefix)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        static.load(other, str(tmp_path / "nowhere"))


@pytest.mark.parametrize("filename", [None, "all"])
def test_save_vars_and_load_vars(model, tmp_path, filename):
    exe, _, out = model
    before = values()
    save_vars(exe, str(tmp_path), predicate=is_persistable, filename=filename)
    wanted = ["all"] if filename else sorted(before)
    assert sorted(os.listdir(tmp_path)) == wanted
    exe.run(feed={"x": X}, fetch_list=[out])
    load_vars(exe, str(tmp_path), predicate=is_persistable, filename=filename)
    assert_same(values(), before)


def test_load_takes_a_folder_of_variables(model, tmp_path):
    exe, _, out = model
    before = values()
    paddle.fluid.io.save_persistables(exe, str(tmp_path))
    exe.run(feed={"x": X}, fetch_list=[out])
    static.load(static.default_main_program(), str(tmp_path), exe)
    assert_same(values(), before)


def predicted(exe, out):
    test = static.default_main_program().clone(for_test=True)
    return exe.run(test.prune_with_input(["x"], [out.name]), feed={"x": X}, fetch_list=[out])[0]


def test_inference_model_of_2x(model, tmp_path):
    exe, x, out = model
    wanted = predicted(exe, out)
    prefix = str(tmp_path / "folder" / "model")
    static.save_inference_model(prefix, [x], [out], exe)
    assert sorted(os.listdir(tmp_path / "folder")) == ["model.pdiparams", "model.pdmodel"]
    with static.scope_guard(static.Scope()):
        program, feeds, fetches = static.load_inference_model(prefix, exe)
        assert feeds == ["x"]
        got = exe.run(program, feed={"x": X}, fetch_list=fetches)[0]
    np.testing.assert_array_equal(got, wanted)


def test_inference_model_in_memory(model):
    exe, x, out = model
    wanted = predicted(exe, out)
    program = static.deserialize_program(static.serialize_program([x], [out]))
    content = static.serialize_persistables([x], [out], exe)
    with static.scope_guard(static.Scope()):
        static.deserialize_persistables(program, content, exe)
        last = program.global_block().ops[-1]
        got = exe.run(program, feed={"x": X}, fetch_list=[last.input("X")[0]])[0]
    np.testing.assert_array_equal(got, wanted)


def test_inference_model_is_loaded_from_the_contents_of_its_files(model):
    exe, x, out = model
    wanted = predicted(exe, out)
    files = {
        "model_filename": static.serialize_program([x], [out]),
        "params_filename": static.serialize_persistables([x], [out], exe),
    }
    with static.scope_guard(static.Scope()):
        program, feeds, fetches = static.load_inference_model(None, exe, **files)
        assert feeds == ["x"]
        got = exe.run(program, feed={"x": X}, fetch_list=fetches)[0]
    np.testing.assert_array_equal(got, wanted)
    with pytest.raises(TypeError, match="must be the contents of"):
        static.load_inference_model(None, exe, model_filename="model.pdmodel")


def test_predictor_serves_either_layout(model, tmp_path):
    exe, x, out = model
    wanted = predicted(exe, out)
    prefix = str(tmp_path / "model")
    static.save_inference_model(prefix, [x], [out], exe)
    folder = str(tmp_path / "folder")
    paddle.fluid.io.save_inference_model(folder, ["x"], [out], exe)
    inference = paddle.inference
    for config in (
        inference.Config(prefix + ".pdmodel", prefix + ".pdiparams"),
        inference.Config(folder),
    ):
        predictor = inference.create_predictor(config)
        assert predictor.get_input_names() == ["x"]
        np.testing.assert_array_equal(predictor.run([X])[0], wanted)
        np.testing.assert_array_equal(predictor.clone().run([X])[0], wanted)
    with pytest.raises(ValueError, match="no input `y`: it has x"):
        predictor.get_input_handle("y")


def test_parameters_are_told_from_other_persistables(model):
    block = static.default_main_program().global_block()
    assert is_parameter(block.var("fc_0.w_0"))
    assert not is_parameter(block.var("learning_rate_0"))
    assert not is_persistable(block.var("x"))
