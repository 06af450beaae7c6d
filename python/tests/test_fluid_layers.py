"""Values and shapes of 1.x layers that are more than one op, and their bad input."""

import bireme as paddle
import numpy as np
import pytest
from bireme import fluid

layers = fluid.layers
RANDOM = np.random.default_rng(11)


def tensor(*shape):
    return paddle.to_tensor(RANDOM.normal(size=shape).astype("float32"))


def test_smooth_l1_is_curved_up_to_one_over_sigma_squared():
    x, y, sigma = tensor(3, 4), tensor(3, 4), 1.5
    error = np.abs(x.numpy() - y.numpy())
    curved = 0.5 * (sigma * error) ** 2
    straight = error - 0.5 / sigma**2
    wanted = np.where(error < 1 / sigma**2, curved, straight).sum(1, keepdims=True)
    np.testing.assert_allclose(layers.smooth_l1(x, y, sigma=sigma).numpy(), wanted, rtol=1e-5)


def test_cos_sim():
    x, y = tensor(3, 4), tensor(3, 4)
    a, b = x.numpy(), y.numpy()
    wanted = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    np.testing.assert_allclose(layers.cos_sim(x, y).numpy()[:, 0], wanted, rtol=1e-5)


def test_ranking_losses():
    label, left, right = paddle.to_tensor([[1.0]]), paddle.to_tensor([[0.3]]), tensor(1, 1)
    gap = 0.3 - right.item()
    wanted = np.log1p(np.exp(gap)) - gap
    np.testing.assert_allclose(layers.rank_loss(label, left, right).item(), wanted, rtol=1e-4)
    wanted = max(0.0, 0.1 - gap)
    got = layers.margin_rank_loss(label, left, right).item()
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-6)


def test_soft_labels():
    probabilities = layers.softmax(tensor(2, 3))
    labels = paddle.to_tensor([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])
    wanted = -(labels.numpy() * np.log(probabilities.numpy())).sum(1, keepdims=True)
    got = layers.cross_entropy(probabilities, labels, soft_label=True)
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-5)


def test_shapes_of_1x():
    x = tensor(2, 3, 4)
    assert layers.flatten(x, axis=2).shape == [6, 4]
    assert layers.expand(x, [1, 2, 1]).shape == [2, 6, 4]
    assert layers.unsqueeze(x, [0, 2]).shape == [1, 2, 1, 3, 4]
    assert [part.shape for part in layers.split(x, 2, dim=2)] == [[2, 3, 2]] * 2
    assert layers.reshape(x, [0, -1], act="relu").shape == [2, 12]
    assert layers.reduce_sum(x, dim=[0, 2], keep_dim=True).shape == [1, 3, 1]


def test_elementwise_fits_smaller_inputs_from_an_axis_on():
    x, y = tensor(2, 3, 4), tensor(2, 3)
    got = layers.elementwise_mul(x, y, axis=0, act="relu").numpy()
    np.testing.assert_allclose(got, np.maximum(x.numpy() * y.numpy()[:, :, None], 0), rtol=1e-6)


def test_layers_write_into_given_variables():
    total = paddle.zeros([1])
    layers.sums([paddle.ones([1]), paddle.ones([1])], out=total)
    layers.increment(total, 0.5)
    assert total.tolist() == [2.5]


def test_step_counter_counts_runs():
    paddle.enable_static()
    counter = layers.autoincreased_step_counter()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    runs = [exe.run(fetch_list=[counter])[0][0] for _ in range(3)]
    assert runs == [1, 2, 3]


def test_shuffle_batch_keeps_rows_whole():
    x = np.arange(12, dtype="float32").reshape(6, 2)
    got = paddle.incubate.layers.shuffle_batch(paddle.to_tensor(x)).numpy()
    assert sorted(map(tuple, got)) == sorted(map(tuple, x))


def test_embedding_says_which_one_takes_ids_without_the_last_1():
    ids = fluid.layers.data("ids", [5], dtype="int64")
    with pytest.raises(ValueError, match="`fluid.embedding` takes ids without it"):
        layers.embedding(ids, [10, 4])
    assert fluid.embedding(ids, [10, 4]).shape == (-1, 5, 4)


def test_lod_lengths_must_fit_the_rows():
    with pytest.raises(ValueError, match="level 0 sum to 4, but there are 5 rows"):
        fluid.create_lod_tensor(np.zeros([5, 1], "int64"), [[2, 2]], fluid.CPUPlace())
    nested = fluid.create_lod_tensor(np.zeros([5, 1], "int64"), [[1, 2], [1, 2, 2]])
    assert nested.lod() == [[0, 1, 3], [0, 1, 3, 5]]
    assert fluid.create_lod_tensor([[1, 2], [3]], [[2, 1]]).lod() == [[0, 2, 3]]


def test_a_schedule_of_programs_is_refused_in_eager_mode():
    with pytest.raises(RuntimeError, match=r"in eager mode use `paddle.optimizer.lr`"):
        layers.exponential_decay(0.1, 10, 0.5)


@pytest.mark.parametrize("name", ["py_reader", "IfElse", "DynamicRNN", "linear_chain_crf"])
def test_missing_layers_say_so(name):
    with pytest.raises(AttributeError, match=f"`paddle.fluid.layers.{name}` is not in Bireme"):
        getattr(layers, name)


@pytest.mark.parametrize("name", ["PyReader"])
def test_missing_parts_of_fluid_say_so(name):
    with pytest.raises(AttributeError, match=f"`paddle.fluid.{name}` is not in Bireme"):
        getattr(fluid, name)


def test_what_has_another_name_now_is_named():
    with pytest.raises(AttributeError, match=r"nearest: `paddle.io.DataLoader.from_generator`"):
        _ = layers.py_reader


def test_files_of_1x(tmp_path):
    x = layers.data("x", [3])
    out = layers.fc(x, 2)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    data = RANDOM.random([4, 3], dtype="float32")
    (wanted,) = exe.run(feed={"x": data}, fetch_list=[out])
    folder = str(tmp_path / "model")
    names = fluid.io.save_inference_model(folder, ["x"], [out], exe)
    assert names == [out.name]
    files = sorted(path.name for path in (tmp_path / "model").iterdir())
    assert files == ["__model__", "fc_0.b_0", "fc_0.w_0"]
    with fluid.scope_guard(fluid.Scope()):
        program, feeds, targets = fluid.io.load_inference_model(folder, exe)
        (got,) = exe.run(program, feed={feeds[0]: data}, fetch_list=targets)
    np.testing.assert_array_equal(got, wanted)


def test_steps_of_recurrent_layers_learn():
    x, state, cell = (layers.data(name, [size]) for name, size in (("x", 6), ("h", 4), ("c", 4)))
    hidden, reset, gate = layers.gru_unit(layers.fc(x, 12, bias_attr=False), state, 12)
    assert [var.shape for var in (hidden, reset, gate)] == [(-1, 4), (-1, 4), (-1, 12)]
    hidden, memory = layers.lstm_unit(hidden, state, cell)
    loss = layers.mean(layers.square(layers.concat([hidden, memory], axis=1)))
    fluid.optimizer.Adam(0.05).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feed = {name: RANDOM.random([3, size], dtype="float32") for name, size in (("x", 6), ("h", 4))}
    feed["c"] = feed["h"]
    losses = [exe.run(feed=feed, fetch_list=[loss])[0][0] for _ in range(20)]
    assert losses[-1] < losses[0] / 2


def test_set_gradient_clip_holds_for_optimizers_without_their_own():
    fluid.clip.set_gradient_clip(fluid.clip.GradientClipByGlobalNorm(0.001))
    try:
        loss = layers.mean(layers.fc(layers.data("x", [2]), 1, param_attr="w"))
        fluid.optimizer.SGD(1.0).minimize(loss)
    finally:
        fluid.clip.set_gradient_clip(None)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    before = np.array(fluid.global_scope().find_var("w").get_tensor())
    exe.run(feed={"x": np.ones([1, 2], "float32")})
    after = np.array(fluid.global_scope().find_var("w").get_tensor())
    assert 0 < np.abs(before - after).max() <= 0.001
