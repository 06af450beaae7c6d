"""Arguments of Paddle that cannot be heeded say so, and those that can are."""

import warnings

import bireme as paddle
import numpy as np
import pytest
from bireme import fluid
from bireme.distributed import fleet
from bireme.fluid.incubate.fleet.base.role_maker import GeneralRoleMaker


def minimized(strategy):
    paddle.enable_static()
    loss = paddle.mean(paddle.static.nn.fc(paddle.static.data("x", [None, 2]), 1))
    fleet.init(is_collective=True)
    fleet.distributed_optimizer(paddle.optimizer.SGD(0.1), strategy).minimize(loss)


def test_what_paddlerec_sets_warns_and_trains():
    # As `get_strategy` of PaddleRec's tools, with what `-o` leaves of a switch.
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    strategy.is_with_coordinator = False
    configs = strategy.a_sync_configs
    configs["k_steps"] = 0
    strategy.a_sync_configs = configs
    strategy.adam_d2sum = True
    with pytest.warns(UserWarning, match="`adam_d2sum` of `DistributedStrategy` has no effect"):
        minimized(strategy)
    strategy.adam_d2sum = "False"
    assert strategy.adam_d2sum is False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        minimized(strategy)
    assert paddle.static.default_main_program()._fleet_opt["dump_fields"] == []
    with pytest.raises(TypeError, match="`adam_d2sum` must be of type bool, not str"):
        strategy.adam_d2sum = "maybe"
    dataset = paddle.distributed.InMemoryDataset()
    dataset._set_use_ps_gpu(True)
    assert dataset.use_ps_gpu


def test_threads_of_the_flag_are_those_of_executors(monkeypatch):
    asked = []
    real = paddle._core.Executor
    monkeypatch.setattr(
        paddle._core, "Executor", lambda place, threads: asked.append(threads) or real(place)
    )
    monkeypatch.setattr("bireme.framework.flags._threads", None)
    paddle.static.Executor()
    paddle.set_flags({"FLAGS_paddle_num_threads": 3})
    paddle.static.Executor()
    assert asked == [None, 3]
    with pytest.raises(ValueError, match="must be a number from 1 on, not 0"):
        paddle.set_flags({"FLAGS_paddle_num_threads": 0})


def test_threads_of_a_predictor(tmp_path, monkeypatch):
    x = fluid.layers.data("x", [2])
    fluid.io.save_inference_model(str(tmp_path), ["x"], [fluid.layers.relu(x)], None)
    config = paddle.inference.Config(str(tmp_path))
    config.set_cpu_math_library_num_threads(2)
    assert config.cpu_math_library_num_threads() == 2
    asked = []
    real = paddle._core.Executor
    monkeypatch.setattr(
        paddle._core, "Executor", lambda place, threads: asked.append(threads) or real(place)
    )
    predictor = paddle.inference.create_predictor(config)
    assert asked == [2]
    (out,) = predictor.run([np.array([[-1.0, 2.0]], "float32")])
    np.testing.assert_array_equal(np.array(out), [[0, 2]])


def test_what_has_no_effect_warns(tmp_path):
    x = fluid.layers.data("x", [2])
    target = fluid.layers.relu(x)
    config = paddle.inference.Config("model")
    for text, call in (
        ("`switch_ir_optim(False)` has no effect", lambda: config.switch_ir_optim(False)),
        ("`enable_memory_optim(False)` has no", lambda: config.enable_memory_optim(False)),
        ("`switch_specify_input_names(False)`", lambda: config.switch_specify_input_names(False)),
        (
            "`ExecutionStrategy.num_threads` has no effect",
            lambda: setattr(paddle.static.ExecutionStrategy(), "num_threads", 4),
        ),
        (
            "the timeouts of `GeneralRoleMaker` have no effect",
            lambda: GeneralRoleMaker(init_timeout_seconds=10),
        ),
        ("`http_ip_port` have no effect", lambda: GeneralRoleMaker(http_ip_port="h:1")),
        (
            "`export_for_deployment=False` has no effect",
            lambda: fluid.io.save_inference_model(
                str(tmp_path), ["x"], [target], None, export_for_deployment=False
            ),
        ),
    ):
        with pytest.warns(UserWarning) as said:
            call()
        assert text in str(said[0].message) and said[0].filename == __file__, str(said[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config.switch_ir_optim(True)
        config.enable_memory_optim()
        paddle.static.ExecutionStrategy()
        GeneralRoleMaker()


def test_what_mixed_precision_cannot_do_is_refused():
    from bireme.static import amp

    with pytest.raises(NotImplementedError, match="`fp16_guard` alone is not in this version"):
        amp.decorate(paddle.optimizer.SGD(parameters=[]), use_fp16_guard=True)
    with pytest.raises(TypeError, match="is for an optimizer, not `NoneType`"):
        amp.decorate(None)
    with pytest.raises(ValueError, match="overlap"):
        amp.CustomOpLists(["mul"], ["mul"])


@pytest.mark.parametrize("overwrite", [True, False])
def test_gradients_of_rows_gathered_twice_are_summed(overwrite):
    rows = paddle.to_tensor([[1.0], [2.0]], stop_gradient=False)
    fluid.layers.gather(rows, paddle.to_tensor([1, 1]), overwrite).sum().backward()
    assert rows.grad.tolist() == [[0.0], [2.0]]
