"""`save` and `load`: Paddle's files, whole or not at all, and never code.

The files in `data/paddle-2.6.2` were written by Paddle 2.6.2: the state of `nn.Linear(3, 2)` after
`seed(1)` and one step of Adam on ones (protocols 2 to 4), that of the optimizer with a `StepDecay`,
both in containers with other values, one tensor, and what `static.save` writes for a layer.
"""

import io
import os
import pickle
from collections import OrderedDict
from pathlib import Path

import bireme as paddle
import numpy as np
import pytest

FILES = Path(__file__).parent / "data" / "paddle-2.6.2"
WEIGHT = [[-1.1562803, 0.4804174], [0.2857223, -1.0942134], [-0.34618494, 0.9179362]]


def tensor(values, name=None, dtype="float32"):
    made = paddle.to_tensor(np.array(values, dtype))
    if name:
        made.name = name
    return made


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_layer_of_paddle(protocol):
    state = paddle.load(FILES / f"layer-{protocol}.pdparams")
    assert list(state) == ["weight", "bias"]
    np.testing.assert_allclose(state["weight"].numpy(), WEIGHT, rtol=1e-6)
    assert (state["weight"].name, state["bias"].name) == ("linear_0.w_0", "linear_0.b_0")
    names = paddle.load(FILES / "layer-4.pdparams", keep_name_table=True)
    assert names["StructuredToParameterName@@"]["weight"] == "linear_0.w_0"


@pytest.mark.parametrize("protocol", [3, 4])
def test_layers_are_written_as_paddle_does_to_the_byte(protocol, tmp_path):
    paddle.save(
        paddle.load(FILES / f"layer-{protocol}.pdparams"), tmp_path / "x", protocol=protocol
    )
    assert (tmp_path / "x").read_bytes() == (FILES / f"layer-{protocol}.pdparams").read_bytes()


def test_optimizer_of_paddle():
    state = paddle.load(FILES / "optimizer.pdopt")
    assert state["LR_Scheduler"] == {"last_epoch": 0, "last_lr": 0.1}
    assert state["linear_0.w_0_moment1_0"].shape == [3, 2]
    assert "StructuredToParameterName@@" not in state


@pytest.mark.parametrize("name", ["nested.pd", "nested-2.pd"])
def test_containers_of_paddle(name):
    value = paddle.load(FILES / name)
    assert value["epoch"] == 3
    assert isinstance(value["model"], OrderedDict)
    assert isinstance(value["model"]["bias"], paddle.Tensor)
    first, array, pair = value["x"]
    # What was an array beside tensors stays one.
    assert isinstance(first, paddle.Tensor)
    assert isinstance(array, np.ndarray)
    assert pair == (1, "a")
    assert value["s"] == np.float32(2.5)


def test_static_files_of_paddle():
    state = paddle.load(FILES / "static.pdparams", return_numpy=True)
    assert {name: array.shape for name, array in state.items()} == {
        "fc_0.w_0": (3, 2),
        "fc_0.b_0": (2,),
    }
    state["fc_0.b_0"][0] = 1.0
    assert paddle.load(FILES / "static.pdopt")["learning_rate_0"].shape == []
    assert paddle.load(FILES / "lod.pd", return_numpy=True)["t"].shape == (3, 2)
    paddle.enable_static()
    loaded = paddle.load(FILES / "static.pdparams")["fc_0.w_0"]
    np.testing.assert_array_equal(np.array(loaded), state["fc_0.w_0"])


def test_single_tensors_of_paddle():
    for name in ("tensor.pd", "tensor.bin"):
        loaded = paddle.load(FILES / name)
        np.testing.assert_allclose(loaded.numpy(), WEIGHT, rtol=1e-6)


def test_own_files_come_back(tmp_path):
    value = {
        "tensors": [tensor([1, 2], "a"), (tensor([[3]], dtype="int64"),)],
        "array": np.arange(6).reshape(2, 3).T,
        "empty": tensor(np.zeros([0, 3])),
        "rest": (1, 2.5, None, True, "text", b"bytes", {1, 2}, OrderedDict(x=1)),
    }
    path = tmp_path / "new" / "folder" / "value.pd"
    for protocol in (2, 3, 4):
        paddle.save(value, str(path), protocol=protocol)
        loaded = paddle.load(str(path))
        assert loaded["tensors"][0].tolist() == [1, 2]
        assert loaded["tensors"][0].name == "a"
        assert str(loaded["tensors"][1][0].dtype) == "paddle.int64"
        np.testing.assert_array_equal(loaded["array"], value["array"])
        assert loaded["empty"].shape == [0, 3]
        assert loaded["rest"] == value["rest"]


def test_large_arrays_are_cut_before_protocol_4(tmp_path, monkeypatch):
    monkeypatch.setattr("bireme.framework.io.MAX_SLICE_BYTES", 100)
    state = {"w": tensor(np.arange(70).reshape(7, 10)), "b": tensor([1.0])}
    for protocol in (2, 3):
        paddle.save(state, tmp_path / "x", protocol=protocol)
        stored = pickle.loads((tmp_path / "x").read_bytes())
        assert stored["UnpackBigParamInfor@@"]["w"]["slices"] == ["w@@.0", "w@@.1", "w@@.2"]
        loaded = paddle.load(tmp_path / "x")
        assert loaded["w"].tolist() == state["w"].tolist()
        assert set(loaded) == {"w", "b"}


def test_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "state.pdparams"
    paddle.save({"w": tensor([1.0])}, path)
    with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
        paddle.save([tensor([2.0]), lambda: None], path)
    assert paddle.load(path)["w"].tolist() == [1.0]
    assert os.listdir(tmp_path) == ["state.pdparams"]


class Attack:
    """Pickles itself as a call of `os.system`."""

    def __reduce__(self):
        return os.system, ("touch attacked",)


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (pickle.dumps(Attack()), f"{os.system.__module__}.system"),
        (pickle.dumps({"w": Attack()}, protocol=2), f"{os.system.__module__}.system"),
        (b"\x80\x04cbuiltins\nexec\n(V1\ntR.", "builtins.exec"),
        (b"\x80\x02c__builtin__\ngetattr\n.", "__builtin__.getattr"),
        (b"\x80\x04cbuiltins\neval\n(V__import__('os')\n}tR.", "__import__"),
        (b"\x80\x04cnumpy.core.multiarray\n_reconstruct\n}b.", "tries to change a function"),
        (pickle.dumps(np.array([None], dtype=object)), "only numbers are read"),
        (pickle.dumps(np.dtype([("a", "f4")])), "only numbers are read"),
        (b"\x80\x04cbireme.utils\ntry_import\n.", "bireme.utils.try_import"),
    ],
)
def test_pickles_that_run_code_are_refused(content, wanted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.pdparams").write_bytes(content)
    with pytest.raises(pickle.UnpicklingError, match="bad.pdparams") as caught:
        paddle.load("bad.pdparams")
    assert wanted in str(caught.value)
    assert not (tmp_path / "attacked").exists()


def test_bad_arguments(tmp_path):
    cases = [
        (
            lambda: paddle.save({}, str(tmp_path) + "/"),
            ValueError,
            "must end with the name of a file",
        ),
        (
            lambda: paddle.save(1, tmp_path / "x", protocol=5),
            ValueError,
            "must be 2, 3 or 4, not 5",
        ),
        (
            lambda: paddle.save(1, tmp_path / "x", compress=1),
            ValueError,
            "does not take `compress`",
        ),
        (lambda: paddle.load(tmp_path / "none"), FileNotFoundError, "nothing to load at"),
        (lambda: paddle.load(tmp_path), FileNotFoundError, "a folder without a model"),
        (lambda: paddle.load(tmp_path / "text"), ValueError, "none of what `load` reads"),
        (lambda: paddle.load(tmp_path / "cut"), ValueError, "is damaged"),
    ]
    (tmp_path / "text").write_text("hello world")
    (tmp_path / "cut").write_bytes((FILES / "layer-4.pdparams").read_bytes()[:200])
    for call, kind, text in cases:
        with pytest.raises(kind, match=text):
            call()


def test_buffers():
    buffer = io.BytesIO()
    paddle.save({"w": tensor([1.0])}, buffer)
    paddle.save([1], buffer)
    buffer.seek(0)
    assert paddle.load(buffer)["w"].tolist() == [1.0]
    assert paddle.load(buffer) == [1]
