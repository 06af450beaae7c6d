"""The executor, scopes, names and places of the extension."""

import numpy as np
import pytest
from bireme import _core
from static_line import X, Y, fit_a_line, fresh, trained  # noqa: F401

pytestmark = pytest.mark.usefixtures("fresh")


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
    with pytest.raises(ValueError, match="cannot fetch `lost`"):
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
    with pytest.raises(RuntimeError, match="GPU 0 cannot be used: .*; use `CPUPlace"):
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
