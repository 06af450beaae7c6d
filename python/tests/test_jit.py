"""Layers as programs: traced, saved, and run again."""

import bireme as paddle
import numpy as np
import pytest
from bireme.static import InputSpec


class Net(paddle.nn.Layer):
    """Two layers with dropout, a buffer and a constant between them."""

    def __init__(self):
        super().__init__()
        self.first = paddle.nn.Linear(4, 8)
        self.norm = paddle.nn.BatchNorm1D(8)
        self.dropout = paddle.nn.Dropout(0.5)
        self.second = paddle.nn.Linear(8, 2)
        self.shift = paddle.to_tensor([1.0, -1.0])

    def forward(self, x, scale=2.0):
        hidden = self.dropout(self.norm(paddle.nn.functional.relu(self.first(x))))
        return self.second(hidden) * scale + self.shift + paddle.ones([1])


def example(rows=3):
    return paddle.to_tensor(np.arange(rows * 4).reshape(rows, 4).astype("float32") / 10)


def check_saved(net, path, inputs, **options):
    net.eval()
    expected = net(*inputs)
    net.train()
    paddle.jit.save(net, path, **options)
    assert net.training
    assert net.dropout.training
    loaded = paddle.jit.load(path)
    np.testing.assert_allclose(loaded(inputs[0]).numpy(), expected.numpy(), rtol=1e-5)
    return loaded


def test_layer_comes_back_as_it_is_in_inference(tmp_path):
    spec = [InputSpec([None, 4], "float32", "x")]
    loaded = check_saved(Net(), str(tmp_path / "new" / "net"), [example()], input_spec=spec)
    assert loaded(example(7)).shape == [7, 2]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "net.pdiparams",
        "net.pdiparams.info",
        "net.pdmodel",
    ]


def test_state_of_a_loaded_model_fits_the_layer(tmp_path):
    net = Net()
    paddle.jit.save(net, str(tmp_path / "net"), input_spec=[InputSpec([None, 4])])
    other = Net()
    state = paddle.jit.load(str(tmp_path / "net")).state_dict()
    other.set_state_dict(state)
    net.eval()
    other.eval()
    np.testing.assert_allclose(other(example()).numpy(), net(example()).numpy(), rtol=1e-6)
    parameters = paddle.load(str(tmp_path / "net"), return_numpy=True)
    np.testing.assert_array_equal(parameters[net.first.weight.name], net.first.weight.numpy())


def test_inputs_are_taken_from_the_mark_or_from_the_last_call(tmp_path):
    marked = paddle.jit.to_static(Net(), input_spec=[InputSpec([None, 4], name="features")])
    check_saved(marked, str(tmp_path / "a"), [example()])
    called = paddle.jit.to_static(Net())
    with pytest.raises(ValueError, match="give `input_spec`, or call it first"):
        paddle.jit.save(called, str(tmp_path / "b"))
    called(example())
    check_saved(called, str(tmp_path / "b"), [example()])
    tensors = check_saved(Net(), str(tmp_path / "c"), [example()], input_spec=[example()])
    assert tensors._feeds == ["x"]


def test_marked_method_runs_and_trains():
    class Marked(Net):
        @paddle.jit.to_static(input_spec=[InputSpec([None, 4])])
        def forward(self, x):
            return super().forward(x)

    net, other = Marked(), Marked()
    optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())
    before = net.first.weight.numpy()
    paddle.mean(net(example())).backward()
    optimizer.step()
    assert abs(net.first.weight.numpy() - before).max() > 0
    assert net.forward is net.forward
    assert net.forward is not other.forward
    types = [op.type for op in net.forward.main_program.global_block().ops]
    assert "relu" in types


def test_functions_with_several_inputs_and_outputs(tmp_path):
    weight = paddle.to_tensor([[2.0], [3.0]])

    def function(pair, factor, table):
        total = paddle.matmul(pair[0] + pair[1], weight) * factor
        return total, [table["a"] + 1]

    vector = InputSpec([None, 2])
    specs = [[vector, vector], 10.0, {"a": InputSpec([1], "int64")}]
    path = str(tmp_path / "function")
    paddle.jit.save(function, path, input_spec=specs)
    loaded = paddle.jit.load(path)
    assert loaded._feeds == ["pair_0", "pair_1", "table_a"]
    ones = np.ones([1, 2], "float32")
    total, plus = loaded(ones, ones, np.array([4]))
    assert (total.tolist(), plus.tolist()) == ([[100.0]], [5])
    with pytest.raises(ValueError, match="takes 3 inputs, not 1"):
        loaded(ones)
    with pytest.raises(NotImplementedError, match="cannot be trained"):
        loaded.train()


def test_what_leaves_a_block_by_values_is_refused(tmp_path):
    def function(x):
        while x.sum() < 0:
            return -x
        return x

    with pytest.raises(RuntimeError, match="has no value while a program is built"):
        paddle.jit.save(function, str(tmp_path / "x"), input_spec=[InputSpec([2])])
    # What was switched for the trace is switched back.
    assert paddle.in_dynamic_mode()
    assert function(paddle.to_tensor([-1.0])).tolist() == [1.0]


def test_bad_arguments(tmp_path):
    with pytest.raises(TypeError, match="`input_spec` must be a list"):
        paddle.jit.to_static(len, input_spec=InputSpec([1]))
    with pytest.raises(TypeError, match="takes a layer or a function, not int"):
        paddle.jit.to_static(3)
    with pytest.raises(NotImplementedError, match="no backend `CINN`"):
        paddle.jit.to_static(len, backend="CINN")
    with pytest.raises(ValueError, match="returns nothing that depends on its inputs"):
        paddle.jit.save(lambda x: 1, str(tmp_path / "x"), input_spec=[InputSpec([1])])
    with pytest.raises(ValueError, match="must end with the prefix"):
        paddle.jit.save(Net(), str(tmp_path) + "/", input_spec=[InputSpec([1, 4])])
