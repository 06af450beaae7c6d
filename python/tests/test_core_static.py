"""The static half of the extension: programs, scopes, the executor, files."""

import numpy as np
import pytest
from bireme import _core

X = np.random.default_rng(0).normal(size=(20, 13)).astype("float32")
Y = (X @ np.arange(13, dtype="float32")[:, None] * 0.1 + 0.5).astype("float32")


@pytest.fixture(autouse=True)
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


def test_a_program_shows_what_it_is_made_of():
    pred, loss = fit_a_line()
    main = _core.default_main_program()
    block = main.global_block()
    assert block.ops[0].type == "mul"
    assert block.ops[0].input("X") == ["x"] and block.ops[0].output_arg_names == ["fc_0.tmp_0"]
    assert block.ops[0].attr("x_num_col_dims") == 1 and block.ops[1].attr("axis") == 1
    assert "test_core_static.py" in block.ops[0].site
    assert pred.shape == (-1, 1) and pred.dtype == "float32" and pred.ndim == 2
    assert block.var("x").is_data and block.var("x").stop_gradient
    assert not pred.stop_gradient and not pred.is_parameter
    assert [p.name for p in main.all_parameters()] == ["fc_0.w_0", "fc_0.b_0"]
    assert pred == block.vars["pred"] and hash(pred) == hash(block.var("pred")) and pred != loss
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
    assert names == [("fc_0.b_0", "fc_0.b_0@GRAD"), ("fc_0.w_0", "fc_0.w_0@GRAD")]
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


def test_bad_feeds_say_what_to_do():
    executor, pred, _ = trained(1)
    main = _core.default_main_program()

    def run(**feed):
        return executor.run(main, feed, [pred])

    with pytest.raises(ValueError, match="feed `y`: the program reads it, so it must be fed"):
        run(x=X)
    with pytest.raises(ValueError, match="feed `xx`: .*no such variable.*`x`"):
        run(xx=X, y=Y)
    with pytest.raises(ValueError, match="feed `x`: expected float32.*given float64"):
        run(x=X.astype("float64"), y=Y)
    with pytest.raises(ValueError, match=r"feed `x`: expected .*\[-1, 13\].*given .*\[20, 12\]"):
        run(x=X[:, :12], y=Y)
    with pytest.raises(TypeError, match="feed `x`: arrays of complex64 cannot be tensors"):
        run(x=X.astype("complex64"), y=Y)
    with pytest.raises(ValueError, match="`lost`: cannot fetch it"):
        executor.run(main, {"x": X, "y": Y}, ["lost"])


def test_running_before_startup_says_so():
    pred, _ = fit_a_line()
    executor = _core.Executor(_core.CPUPlace())
    with pytest.raises(RuntimeError, match="`fc_0.w_0` has no value: run the startup program"):
        executor.run(_core.default_main_program(), {"x": X, "y": Y}, [pred])


def test_feeds_are_windows_and_fetches_own_their_memory():
    block = _core.default_main_program().global_block()
    x = block.create_var("x", [-1, 4], "float32", is_data=True)
    executor, main = _core.Executor(), _core.default_main_program()
    big = np.arange(16, dtype="float32").reshape(4, 4)
    (same,) = executor.run(main, {"x": big}, [x])
    assert same.flags.writeable and same.base is not None
    np.testing.assert_array_equal(same, big)
    same[0, 0] = 99  # the fetched array is nobody else's
    (again,) = executor.run(main, {"x": big.T}, [x])  # not contiguous: a copy is fed
    np.testing.assert_array_equal(again, big.T)
    (listed,) = executor.run(main, {"x": [[1, 2, 3, 4]]}, ["x"])
    assert listed.dtype == np.float32 and listed.tolist() == [[1.0, 2.0, 3.0, 4.0]]
    assert same[0, 0] == 99 and big[0, 0] == 0


def test_integers_convert_only_where_nothing_is_checked():
    block = _core.default_main_program().global_block()
    block.create_var("free", [-1, 1], "int64", is_data=True, need_check_feed=False)
    block.create_var("checked", [-1, 1], "int64", is_data=True)
    executor, main = _core.Executor(), _core.default_main_program()
    ids = np.array([[3]], "int32")
    (free,) = executor.run(main, {"free": ids}, ["free"])
    assert free.dtype == np.int64 and free.tolist() == [[3]]
    with pytest.raises(ValueError, match="expected int64"):
        executor.run(main, {"checked": ids}, ["checked"])


def test_ragged_feeds():
    block = _core.default_main_program().global_block()
    block.create_var("ids", [-1, 1], "int64", lod_level=1, is_data=True)
    block.append_op("cast", {"X": "ids"}, {"Out": "x"}, {"in_dtype": 3, "out_dtype": "float32"})
    outputs = {"Out": "sum", "MaxIndex": "index"}
    block.append_op("sequence_pool", {"X": "x"}, outputs, {"pooltype": "SUM"})
    ids = _core.LoDTensor()
    ids.set(np.array([[1], [2], [3]], "int64"), _core.CPUPlace())
    ids.set_recursive_sequence_lengths([[2, 1]])
    assert ids.lod() == [[0, 2, 3]] and ids.recursive_sequence_lengths() == [[2, 1]]
    executor, main = _core.Executor(), _core.default_main_program()
    (total,) = executor.run(main, {"ids": ids}, ["sum"])
    assert total.tolist() == [[3.0], [3.0]]
    with pytest.raises(RuntimeError, match="return_numpy=False"):
        executor.run(main, {"ids": ids}, ["x"])
    (x,) = executor.run(main, {"ids": ids}, ["x"], return_numpy=False)
    assert x.lod() == [[0, 2, 3]]
    with pytest.raises(ValueError, match="LoD level 0 must rise from 0 to 3"):
        ids.set_lod([[0, 2]])


def test_scopes_hold_what_is_set():
    trained(1)
    scope = _core.global_scope()
    assert scope.find_var("nothing") is None and "fc_0.w_0" in scope.names()
    tensor = scope.find_var("fc_0.w_0").get_tensor()
    assert tensor.shape() == [13, 1] and tensor._dtype() == "float32"
    tensor.set(np.zeros([13, 1], "float32"), _core.CPUPlace())
    assert not np.array(tensor).any()
    assert np.array(tensor, dtype="float64").dtype == np.float64
    made = scope.var("made")
    assert scope.find_var("made") is not None
    with pytest.raises(RuntimeError, match="`made` has no value"):
        np.array(made.get_tensor())
    scope.erase("fc_0.w_0")
    assert scope.find_var("fc_0.w_0") is None


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


def test_edits_are_seen_by_the_next_run():
    block = _core.default_main_program().global_block()
    block.create_var("x", [-1], "float32", is_data=True)
    scale = block.append_op("scale", {"X": "x"}, {"Out": "y"}, {"scale": 2.0})
    executor, main = _core.Executor(), _core.default_main_program()
    feed = {"x": np.ones(1, "float32")}
    assert executor.run(main, feed, ["y"])[0] == 2
    scale._set_attr("scale", 3)
    assert executor.run(main, feed, ["y"])[0] == 3
    executor.close()
    with pytest.raises(RuntimeError, match="closed"):
        executor.run(main, feed, ["y"])


def test_names_and_places(monkeypatch):
    assert [_core.unique_name("fc"), _core.unique_name("fc")] == ["fc_0", "fc_1"]
    old = _core.switch_names(_core.UniqueNames("a_"))
    assert _core.unique_name("fc") == "a_fc_0"
    _core.switch_names(old)
    assert _core.unique_name("fc") == "fc_2"
    monkeypatch.delenv("BIREME_DEVICE", raising=False)
    with pytest.raises(RuntimeError, match="no GPU 0: use `CPUPlace"):
        _core.CUDAPlace(0)
    monkeypatch.setenv("BIREME_DEVICE", "cpu")
    with pytest.warns(RuntimeWarning, match="BIREME_DEVICE"):
        place = _core.CUDAPlace(0)
    assert place == _core.CUDAPlace(0) and _core.CPUPlace() == _core.CPUPlace()


def test_threads_may_share_an_executor_and_a_scope():
    import threading

    executor, pred, _ = trained(1)
    test = _core.default_main_program().prune_with_input(["x"], [pred.name])
    (expected,) = executor.run(test, {"x": X}, [pred.name])
    wrong = []

    def work(own):
        runner = _core.Executor() if own else executor
        for _ in range(200):
            (given,) = runner.run(test, {"x": X}, [pred.name])
            if not np.array_equal(given, expected):
                wrong.append(given)

    threads = [threading.Thread(target=work, args=(own,)) for own in (True, False, False)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
