"""Mixed precision, in eager mode and of static programs."""

from __future__ import annotations

import bireme as paddle
import numpy as np
import pytest
from bireme.distributed import fleet


@pytest.fixture
def static():
    paddle.enable_static()
    main, startup = paddle.static.Program(), paddle.static.Program()
    main.random_seed = startup.random_seed = 1
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        yield main, startup
    paddle.disable_static()


def network():
    """Two layers and a loss."""
    x = paddle.static.data("x", [-1, 4], "float32")
    y = paddle.static.data("y", [-1, 1], "float32")
    hidden = paddle.static.nn.fc(x, 8, activation="relu")
    out = paddle.static.nn.fc(hidden, 1)
    return paddle.mean(paddle.nn.functional.square_error_cost(out, y))


def train(main, startup, loss, steps=30):
    """Losses of a training."""
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(startup)
    random = np.random.default_rng(0)
    weights = random.normal(size=(4, 1)).astype("float32")
    losses = []
    for _ in range(steps):
        x = random.normal(size=(32, 4)).astype("float32")
        fed = {"x": x, "y": x @ weights}
        losses.append(float(exe.run(main, feed=fed, fetch_list=[loss])[0]))
    return losses


def test_products_are_cast_and_others_follow():
    layer, x = paddle.nn.Linear(3, 2, bias_attr=False), paddle.ones([4, 3])
    with paddle.amp.auto_cast(dtype="bfloat16"):
        y = layer(x)
        assert y.dtype == paddle.bfloat16
        assert paddle.nn.functional.relu(y).dtype == paddle.bfloat16
        assert paddle.nn.functional.softmax(y).dtype == paddle.float32
        assert (y + paddle.ones([2])).dtype == paddle.float32
        with paddle.amp.auto_cast(enable=False):
            assert layer(x).dtype == paddle.float32
    assert layer(x).dtype == paddle.float32
    with paddle.amp.auto_cast(custom_black_list=["matmul_v2"], custom_white_list=["softmax"]):
        assert layer(x).dtype == paddle.float32
        assert paddle.nn.functional.softmax(x).dtype == paddle.float16
    with paddle.amp.auto_cast(level="O2"):
        assert (layer(x) + paddle.ones([2])).dtype == paddle.float16


def test_numbers_of_16_bits_are_shown_as_numbers():
    x = paddle.to_tensor([1.5, -2.0]).astype("bfloat16")
    assert "1.50000000, -2." in repr(x) and "dtype=bfloat16" in repr(x)
    assert x.tolist() == [1.5, -2.0]


def test_gradients_of_parameters_are_of_their_type():
    layer = paddle.nn.Linear(3, 2)
    with paddle.amp.auto_cast(dtype="bfloat16"):
        loss = layer(paddle.ones([4, 3])).mean()
    loss.backward()
    assert layer.weight.grad.dtype == paddle.float32
    np.testing.assert_allclose(layer.weight.grad.numpy(), 0.5, rtol=1e-2)


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="level should be O0, OD, O1 or O2"):
        paddle.amp.auto_cast(level="O3")
    with pytest.raises(ValueError, match="`float16` or `bfloat16`, not `float32`"):
        paddle.amp.auto_cast(dtype="float32")
    with pytest.raises(ValueError, match="`mul` is both in the custom white list"):
        paddle.amp.auto_cast(custom_white_list=["mul"], custom_black_list=["mul"])
    with pytest.raises(AssertionError, match="incr_ratio"):
        paddle.amp.GradScaler(incr_ratio=0.5)


def test_static_ops_inside_auto_cast_are_refused(static):
    with pytest.raises(RuntimeError, match=r"static\.amp\.decorate"), paddle.amp.auto_cast():
        pass


def test_a_step_with_infinity_is_left_out_and_lowers_the_factor(tmp_path):
    layer = paddle.nn.Linear(2, 1)
    sgd = paddle.optimizer.SGD(0.1, parameters=layer.parameters())
    scaler = paddle.amp.GradScaler(init_loss_scaling=8.0, incr_every_n_steps=2)
    before = layer.weight.numpy().copy()
    loss = (layer(paddle.ones([1, 2])) * float("inf")).sum()
    scaler.scale(loss).backward()
    scaler.step(sgd)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.step(sgd)
    scaler.update()
    sgd.clear_grad()
    np.testing.assert_array_equal(layer.weight.numpy(), before)
    assert scaler.state_dict()["scale"].tolist() == [4.0]
    for _ in range(2):
        scaler.scale(layer(paddle.ones([1, 2])).sum()).backward()
        scaler.unscale_(sgd)
        assert layer.weight.grad.numpy().reshape(-1).tolist() == [1.0, 1.0]
        scaler.step(sgd)
        scaler.update()
        sgd.clear_grad()
    np.testing.assert_allclose(layer.weight.numpy(), before - 0.2, rtol=1e-5)
    assert scaler.state_dict()["scale"].tolist() == [8.0]
    path = str(tmp_path / "scaler")
    paddle.save(scaler.state_dict(), path)
    other = paddle.amp.GradScaler(init_loss_scaling=1.0)
    other.load_state_dict(paddle.load(path))
    assert other.state_dict() == {**scaler.state_dict(), "scale": other.state_dict()["scale"]}
    assert other.state_dict()["scale"].tolist() == [8.0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_parameters_of_16_bits_train_by_their_masters(dtype, tmp_path):
    def build():
        layer = paddle.nn.Sequential(paddle.nn.Linear(2, 4), paddle.nn.BatchNorm1D(4))
        adam = paddle.optimizer.Adam(1e-4, parameters=layer.parameters())
        return paddle.amp.decorate(layer, adam, level="O2", dtype=dtype, save_dtype="float32")

    layer, adam = build()
    assert layer[0].weight.dtype.name == dtype
    assert layer[1].weight.dtype == paddle.float32
    x = paddle.to_tensor(np.random.default_rng(0).normal(size=(8, 2)).astype("float32"))
    for _ in range(3):
        with paddle.amp.auto_cast(level="O2", dtype=dtype):
            loss = (layer(x) ** 2).mean()
        loss.backward()
        adam.step()
        adam.clear_grad()
    state = adam.state_dict()
    master = state["master_weights"][layer[0].weight.name]
    assert master.dtype == paddle.float32
    assert layer.state_dict()["0.weight"].dtype == paddle.float32
    np.testing.assert_array_equal(
        master.astype(dtype).astype("float32").numpy(), layer[0].weight.astype("float32").numpy()
    )
    assert (master.numpy() != layer[0].weight.astype("float32").numpy()).any()
    path = str(tmp_path / "adam")
    paddle.save(state, path)
    adam.set_state_dict(paddle.load(path))
    again = adam.state_dict()["master_weights"][layer[0].weight.name]
    np.testing.assert_array_equal(again.numpy(), master.numpy())


@pytest.mark.parametrize(
    "options",
    [
        {"dtype": "bfloat16"},
        {"dtype": "bfloat16", "level": "O2"},
        {"dtype": "float16"},
        {"dtype": "float16", "level": "O2"},
        {"use_pure_fp16": True, "init_loss_scaling": 128.0},
    ],
)
def test_static_programs_train_as_with_32_bits(static, options):
    main, startup = static
    loss = network()
    wide = main.clone(), startup.clone()
    with paddle.static.program_guard(*wide):
        paddle.optimizer.Adam(0.02).minimize(wide[0].global_block().var(loss.name))
    adam = paddle.static.amp.decorate(paddle.optimizer.Adam(0.02), **options)
    adam.minimize(loss)
    kinds = [op.type for op in main.global_block().ops]
    assert "cast" in kinds
    assert ("check_finite_and_unscale" in kinds) == ("bfloat16" not in options.values())
    expected = train(*wide, wide[0].global_block().var(loss.name))
    losses = train(main, startup, loss)
    assert losses[-1] < 0.6 * losses[0]
    np.testing.assert_allclose(losses, expected, rtol=0.1, atol=0.05)


def test_backward_and_updates_in_two_calls(static):
    main, startup = static
    loss = network()
    sgd = paddle.static.amp.decorate(paddle.optimizer.SGD(0.05), init_loss_scaling=1024.0)
    pairs = sgd.backward(loss)
    sgd.apply_gradients(pairs)
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(startup)
    fed = {"x": np.ones((2, 4), "float32"), "y": np.ones((2, 1), "float32")}
    fetched = exe.run(
        main, feed=fed, fetch_list=[loss, sgd.get_scaled_loss(), sgd.get_loss_scaling()]
    )
    assert fetched[2].tolist() == [1024.0]
    np.testing.assert_allclose(fetched[1], fetched[0] * 1024.0, rtol=1e-5)


def test_a_strategy_asks_for_mixed_precision(static):
    main, _ = static
    fleet.init(is_collective=True)
    strategy = fleet.DistributedStrategy()
    strategy.amp = True
    strategy.amp_configs = {"use_bf16": True, "custom_black_list": ["relu"]}
    loss = network()
    fleet.distributed_optimizer(paddle.optimizer.SGD(0.1), strategy).minimize(loss)
    block = main.global_block()
    relu = next(op for op in block.ops if op.type == "relu")
    assert block.var(relu.input("X")[0]).dtype == paddle.float32
    assert any(op.type == "cast" for op in block.ops)


def test_servers_know_no_scaled_gradients():
    strategy = fleet.DistributedStrategy()
    strategy.amp = True
    with pytest.raises(ValueError, match="`use_bf16`"):
        strategy._amp_optimizer(None, True)
