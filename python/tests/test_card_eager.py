"""Eager mode on the emulated card, as scripts see it."""

import bireme as paddle
import numpy as np
import pytest
from bireme.utils.dlpack import from_dlpack, to_dlpack
from running_cards import last_line, printed

TRAIN = """
import numpy as np
import bireme as paddle

def train(device):
    paddle.set_device(device)
    paddle.seed(3)
    with paddle.utils.unique_name.guard():
        model = paddle.nn.Sequential(
            paddle.nn.Linear(5, 8), paddle.nn.ReLU(), paddle.nn.Dropout(0.25), paddle.nn.Linear(8, 3))
    clip = paddle.nn.ClipGradByGlobalNorm(0.5)
    adam = paddle.optimizer.Adam(0.05, parameters=model.parameters(), grad_clip=clip)
    data = paddle.io.TensorDataset([
        paddle.to_tensor(np.arange(60, dtype="float32").reshape(12, 5) % 7 - 3, place="cpu"),
        paddle.to_tensor(np.arange(12).reshape(12, 1) % 3, place="cpu"),
    ])
    losses = []
    for _ in range(2):
        for x, y in paddle.io.DataLoader(data, batch_size=4):
            assert str(x.place) == f"Place({device})", x.place
            loss = paddle.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            adam.step()
            adam.clear_grad()
            losses.append(float(loss))
    return model, adam, losses
"""


def test_a_model_learns_what_it_learns_on_the_host():
    out = printed(
        TRAIN
        + """
host, _, expected = train("cpu")
model, adam, losses = train("gpu:0")
np.testing.assert_allclose(losses, expected, rtol=2e-5)
for mine, theirs in zip(model.parameters(), host.parameters()):
    assert mine.place.is_gpu_place() and theirs.place.is_cpu_place()
    np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-6)
moments = [v for k, v in adam.state_dict().items() if "moment" in k]
assert moments and all(moment.place.is_gpu_place() for moment in moments)
print("same", losses[-1] < losses[0])
"""
    )
    assert out.startswith("same")


def test_tensors_say_where_they_are_and_move():
    out = printed(
        """
        import copy, pickle
        import numpy as np
        import bireme as paddle

        x = paddle.ones([2, 3])
        assert x.place == paddle.CPUPlace()
        y = x.cuda()
        assert y.place == paddle.CUDAPlace(0) and y is not x and y.cuda() is y
        assert (y + x).place.is_gpu_place() and (y * 2.0).place.is_gpu_place()
        assert y.cpu().place.is_cpu_place() and y.cpu().tolist() == x.tolist()
        assert y.to("cpu").place.is_cpu_place() and x.to("gpu:0", "float64").dtype == paddle.float64
        assert x.to(y).place.is_gpu_place() and x.to(device="gpu").place.is_gpu_place()
        pinned = x.pin_memory()
        assert pinned.place.is_cuda_pinned_place() and repr(pinned.place) == "Place(gpu_pinned)"
        assert (pinned.cuda() + y).tolist() == [[2.0] * 3] * 2
        assert paddle.to_tensor([1.0], place=paddle.CUDAPlace(0)).place.is_gpu_place()
        paddle.set_device("gpu:0")
        for made in (paddle.to_tensor(np.ones(3)), paddle.ones([2]), paddle.rand([2]), paddle.arange(3)):
            assert made.place.is_gpu_place(), made
        linear = paddle.nn.Linear(2, 2)
        assert linear.weight.place.is_gpu_place()
        weight = linear.weight
        linear.to("cpu")
        assert linear.weight is weight and weight.place.is_cpu_place()
        linear.to(device="gpu")
        assert weight.place.is_gpu_place()
        weight.set_value(np.zeros((2, 2), "float32"))
        assert weight.place.is_gpu_place() and weight.numpy().sum() == 0.0
        twin = copy.deepcopy(linear)
        assert twin.weight.place.is_gpu_place()
        assert pickle.loads(pickle.dumps(y)).tolist() == y.tolist()
        print(paddle.to_tensor([1.5, 2.0]))
        """
    )
    assert out.startswith(
        "Tensor(shape=[2], dtype=float32, place=Place(gpu:0), stop_gradient=True,"
    )
    assert "[1.5" in out


def test_models_are_saved_and_loaded_anywhere(tmp_path):
    printed(
        TRAIN
        + """
model, adam, _ = train("gpu:0")
paddle.save(model.state_dict(), "model.pdparams")
paddle.save(adam.state_dict(), "model.pdopt")
paddle.set_device("cpu")
home = paddle.load("model.pdparams")
assert all(value.place.is_cpu_place() for value in home.values())
other, again, _ = train("cpu")
other.set_state_dict(home)
again.set_state_dict(paddle.load("model.pdopt"))
for mine, theirs in zip(other.parameters(), model.parameters()):
    assert mine.numpy().tobytes() == theirs.numpy().tobytes()
paddle.set_device("gpu:0")
model.set_state_dict(paddle.load("model.pdparams"))
adam.set_state_dict(paddle.load("model.pdopt"))
loss = model(paddle.ones([2, 5])).sum()
loss.backward()
adam.step()
assert model.parameters()[0].place.is_gpu_place()
""",
        folder=tmp_path,
    )


def test_gradients_hooks_and_changes_in_place():
    printed(
        """
        import bireme as paddle

        paddle.set_device("gpu:0")
        x = paddle.to_tensor([1.0, 2.0, 3.0], stop_gradient=False)
        seen = []
        x.register_hook(lambda grad: seen.append(grad.place) or grad * 2.0)
        y = x * x
        y.retain_grads()
        (y.sum() + x[1] * 3.0).backward()
        assert x.grad.tolist() == [4.0, 14.0, 12.0] and x.grad.place.is_gpu_place()
        assert y.grad.tolist() == [1.0] * 3 and seen[0].is_gpu_place()
        x.clear_grad()
        assert x.grad.tolist() == [0.0] * 3
        with paddle.no_grad():
            z = x + 1.0
            z[0] = 9.0
            z.add_(paddle.ones([3]))
            z.zero_()
        assert z.tolist() == [0.0] * 3 and z.place.is_gpu_place() and z.stop_gradient
        (grad,) = paddle.grad((x * x * x).sum(), x)
        assert grad.tolist() == [6.0, 24.0, 54.0]
        embedding = paddle.nn.Embedding(10, 4, sparse=True)
        embedding(paddle.to_tensor([1, 3, 1])).sum().backward()
        assert embedding.weight.grad.is_selected_rows()
        assert embedding.weight.grad.numpy()[1].tolist() == [2.0] * 4
        """
    )


def test_a_wrong_id_names_op_and_value():
    line = last_line(
        """
        import bireme as paddle

        paddle.set_device("gpu:0")
        paddle.nn.Embedding(10, 4)(paddle.to_tensor([1, 12])).numpy()
        """
    )
    assert "lookup_table_v2" in line and "12 at position 1 lies outside 0..10" in line, line


def test_memory_is_shared_on_the_card():
    printed(
        """
        import gc
        import bireme as paddle
        from bireme.utils.dlpack import from_dlpack, to_dlpack

        paddle.set_device("gpu:0")
        x = paddle.arange(6).astype("float32")
        assert x.__dlpack_device__() == (2, 0)
        same = from_dlpack(x)
        assert same.place.is_gpu_place() and same.tolist() == x.tolist()
        del x
        gc.collect()
        assert (same + 1.0).tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
        capsule = to_dlpack(same)
        del same
        again = from_dlpack(capsule)
        assert again.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
        del capsule, again
        to_dlpack(paddle.ones([2]))  # Never taken.
        gc.collect()
        """
    )


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "uint8", "bool"])
def test_memory_is_shared_with_numpy(dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    tensor = from_dlpack(array)
    assert tensor.dtype.name == dtype and tensor.numpy().tolist() == array.tolist()
    # The same memory: what numpy writes is seen.
    array[1, 2] = 1
    assert tensor.numpy().tolist() == array.tolist()
    back = np.from_dlpack(tensor)
    assert back.__array_interface__["data"][0] == array.__array_interface__["data"][0]
    del tensor, array
    assert back[1, 2] == 1


def test_arrays_with_gaps_are_copied():
    array = np.arange(12.0).reshape(3, 4)
    assert from_dlpack(array.T).tolist() == array.T.tolist()
    assert from_dlpack(array[::2, 1:3]).tolist() == array[::2, 1:3].tolist()
    assert from_dlpack(np.zeros((0, 3))).shape == [0, 3]


def test_what_is_no_array_is_refused():
    with pytest.raises(TypeError, match="takes a capsule or what has `__dlpack__`, not list"):
        from_dlpack([1, 2])
    capsule = to_dlpack(paddle.ones([2]))
    from_dlpack(capsule)
    with pytest.raises(ValueError, match="each can be taken once"):
        from_dlpack(capsule)
    with pytest.raises(BufferError, match="type 5"):
        from_dlpack(np.ones(2, "complex64"))
    with pytest.raises(TypeError, match="takes a tensor, not ndarray"):
        to_dlpack(np.ones(2))


def test_a_value_that_others_share_is_not_written():
    array = np.ones(3, "float32")
    tensor = from_dlpack(array)
    tensor.stop_gradient, tensor.name = False, "shared"
    tensor.sum().backward()
    paddle.optimizer.SGD(0.5, parameters=[tensor]).step()
    assert tensor.tolist() == [0.5] * 3 and array.tolist() == [1.0] * 3
