"""Programs of the extension: built, differentiated, trained, saved."""

import gc
import weakref

import numpy as np
import pytest
from bireme import _core
from static_line import X, Y, fit_a_line, fresh, trained  # noqa: F401

pytestmark = pytest.mark.usefixtures("fresh")


def test_a_program_shows_what_it_is_made_of():
    pred, loss = fit_a_line()
    main = _core.default_main_program()
    block = main.global_block()
    assert block.ops[0].type == "mul"
    assert block.ops[0].input("X") == ["x"] and block.ops[0].output_arg_names == ["fc_0.tmp_0"]
    assert block.ops[0].attr("x_num_col_dims") == 1 and block.ops[1].attr("axis") == 1
    assert "static_line.py" in block.ops[0].site
    assert pred.shape == (-1, 1) and pred.dtype == "float32" and pred.ndim == 2
    assert block.var("x").is_data and block.var("x").stop_gradient
    assert not pred.stop_gradient and not pred.is_parameter
    assert [p.name for p in main.all_parameters()] == ["fc_0.w_0", "fc_0.b_0"]
    assert pred.name == block.vars["pred"].name and hash(pred) == hash(block.var("pred"))
    assert hash(pred) != hash(loss)
    assert pred.block == block and pred.block.program is main
    assert block.has_var("loss") and not block.has_var("lost")
    assert "mul(inputs=" in str(main) and "var pred : LOD_TENSOR" in str(pred)
    assert str(block.ops[0]).startswith("{Out=['fc_0.tmp_0']} = mul")
    with pytest.raises(ValueError, match="no variable `los`.*`loss`"):
        block.var("los")


def test_the_line_is_fitted():
    _, _, losses = trained()
    assert losses[-1] < losses[0] * 1e-2


@pytest.mark.parametrize(
    "kind, config",
    [
        ("momentum", {"momentum": 0.5, "use_nesterov": True}),
        ("adam", {"beta1": 0.8, "grad_clip": ("global_norm", 1.0)}),
        ("adamw", {"weight_decay": 0.01, "without_decay": ["fc_0.b_0"]}),
        ("adagrad", {"regularization": ("l2", 1e-4)}),
        ("rmsprop", {"rho": 0.9, "grad_clip": ("value", -1.0, 1.0)}),
        ("adam", {"learning_rate": ("exponential", {"rate": 0.1, "decay_steps": 10,
                                                    "decay_rate": 0.9})}),
    ],
)  # fmt: skip
def test_every_optimizer_lowers_the_loss(kind, config):
    _, _, losses = trained(20, kind, **config)
    assert losses[-1] < losses[0]


def test_minimize_names_its_ops_parameters_and_learning_rate():
    _, loss = fit_a_line()
    optimizer = _core.Optimizer("momentum", {"learning_rate": 0.1, "momentum": 0.9})
    ops, pairs = optimizer.minimize(loss, no_grad_set={"unknown"})
    assert [op.type for op in ops] == ["momentum", "momentum"]
    names = [(param.name, grad.name) for param, grad in pairs]
    assert names == [("fc_0.w_0", "fc_0.w_0@GRAD"), ("fc_0.b_0", "fc_0.b_0@GRAD")]
    assert optimizer.learning_rate_name == "learning_rate_0"
    assert "test_core_static.py" in ops[0].site


def test_gradients_of_inputs():
    block = _core.default_main_program().global_block()
    x = block.create_var("x", [-1, 2], "float32", is_data=True, stop_gradient=False)
    block.append_op("square", {"X": x}, {"Out": "y"})
    (grad,) = _core.gradients([block.var("y")], [x])
    values = np.array([[1.0, 2.0]], "float32")
    (given,) = _core.Executor().run(_core.default_main_program(), {"x": values}, [grad])
    np.testing.assert_allclose(given, 2 * values)


def test_a_wrong_setting_is_an_error():
    with pytest.raises(TypeError, match="optimizer `sgd` has no setting `beta1`"):
        _core.Optimizer("sgd", {"learning_rate": 0.1, "beta1": 0.9})
    with pytest.raises(ValueError, match="no optimizer `sdg`"):
        _core.Optimizer("sdg", {"learning_rate": 0.1})
    with pytest.raises(KeyError, match="`learning_rate` is missing"):
        _core.Optimizer("sgd", {})
    with pytest.raises(ValueError, match="no initializer `glorot`"):
        _core.create_parameter([1], "float32", "w", ("glorot", {}))


def test_programs_survive_paddles_form():
    _, loss = fit_a_line()
    main = _core.default_main_program()
    copy = _core.Program.parse_from_string(main.serialize())
    assert str(copy) == str(main)
    with pytest.raises(ValueError, match="not a readable program"):
        _core.Program.parse_from_string(b"not a program")
    _core.Optimizer("sgd", {"learning_rate": 0.1}).minimize(loss)
    test = main.clone(for_test=True)
    assert [op.type for op in test.global_block().ops][-1] == "mean"
    pruned = main.prune_with_input(["x"], ["pred"])
    assert [op.type for op in pruned.global_block().ops] == ["mul", "elementwise_add"]
    assert main.num_blocks == 1 and main.clone().random_seed == 0


def test_models_are_saved_and_loaded(tmp_path):
    executor, pred, _ = trained(5)
    scope, main = _core.global_scope(), _core.default_main_program()
    test = main.prune_with_input(["x"], [pred.name])
    (expected,) = executor.run(test, {"x": X}, [pred.name])
    _core.save_persistables(scope, main, str(tmp_path / "all"), "params")
    _core.save_inference(scope, main, ["x"], [pred.name], str(tmp_path / "model"), "prefix")
    _core.save_inference(scope, main, ["x"], [pred.name], str(tmp_path / "dir"), "dir")
    for path in (tmp_path / "model", tmp_path / "dir"):
        other = _core.Scope()
        program, feeds, fetches = _core.load_inference(other, str(path))
        (given,) = executor.run(program, {feeds[0]: X}, fetches, other)
        np.testing.assert_array_equal(given, expected)
    other = _core.Scope()
    _core.load_persistables(other, main, str(tmp_path / "all"), "params")
    (given,) = executor.run(test, {"x": X}, [pred.name], other)
    np.testing.assert_array_equal(given, expected)
    _core.save_tensor(str(tmp_path / "x"), X)
    np.testing.assert_array_equal(_core.load_tensor(str(tmp_path / "x")), X)
    with pytest.raises(OSError, match="nowhere"):
        _core.load_inference(other, str(tmp_path / "nowhere"))


def test_a_learning_rate_may_be_a_variable():
    _, loss = fit_a_line()
    rate = _core.learning_rate(("piecewise", {"boundaries": [2], "values": [0.1, 0.01]}))
    optimizer = _core.Optimizer("sgd", {"learning_rate": rate})
    optimizer.minimize(loss)
    assert optimizer.learning_rate_name == rate.name == "learning_rate_0"
    executor, main = _core.Executor(), _core.default_main_program()
    executor.run(_core.default_startup_program())
    rates = [executor.run(main, {"x": X, "y": Y}, [rate])[0].item() for _ in range(4)]
    np.testing.assert_allclose(rates, [0.1, 0.1, 0.01, 0.01])


def test_one_optimizer_has_one_learning_rate_in_a_program():
    _, loss = fit_a_line()
    optimizer = _core.Optimizer("sgd", {"learning_rate": 0.1})
    first = optimizer.minimize(loss, parameter_list=["fc_0.w_0"])[0]
    grads = _core.append_backward(loss, ["fc_0.b_0"])
    second = optimizer.apply_gradients(grads)
    assert first[0].input("LearningRate") == second[0].input("LearningRate")


def test_a_program_that_refers_to_itself_is_freed():
    program = _core.Program()
    program.mine = program.global_block().create_var("x", [1])
    gone = weakref.ref(program)
    del program
    gc.collect()
    assert gone() is None


def test_bad_ops_name_the_line_that_made_them():
    block = _core.default_main_program().global_block()
    x = block.create_var("x", [-1, 13], is_data=True)
    w = block.create_var("w", [12, 4], persistable=True)
    with pytest.raises(ValueError, match=r"`mul` .*test_core_static.py:\d+: .*13 columns"):
        block.append_op("mul", {"X": x, "Y": w}, {"Out": "y"})
    with pytest.raises(ValueError, match="no op `matmul_v3`.*`matmul_v2`"):
        block.append_op("matmul_v3", {"X": x, "Y": w}, {"Out": "y"})
    with pytest.raises(TypeError, match="attribute `x_num_col_dims` takes int, not string"):
        block.append_op("mul", {"X": x, "Y": w}, {"Out": "y"}, {"x_num_col_dims": "one"})
    assert block.ops == [] and not block.has_var("y")
