"""`distributed` and `fleet` in a job of one process: they help, or say what is not there."""

import bireme as paddle
import numpy as np
import pytest
from bireme.distributed import fleet


@pytest.fixture
def environment(monkeypatch):
    for name in ("PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM", "TRAINING_ROLE"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_rank_and_world_size_come_from_the_environment(environment):
    assert (paddle.distributed.get_rank(), paddle.distributed.get_world_size()) == (0, 1)
    environment.setenv("PADDLE_TRAINER_ID", "3")
    environment.setenv("PADDLE_TRAINERS_NUM", "4")
    assert (paddle.distributed.get_rank(), paddle.distributed.get_world_size()) == (3, 4)
    assert paddle.distributed.ParallelEnv().nranks == 4


def test_a_rank_that_is_no_number_is_named(environment):
    environment.setenv("PADDLE_TRAINER_ID", "first")
    with pytest.raises(ValueError, match="`PADDLE_TRAINER_ID=first`, which is not a number"):
        paddle.distributed.get_rank()


def test_workers_that_are_neither_collective_nor_have_servers_are_refused(environment):
    environment.setenv("PADDLE_TRAINERS_NUM", "2")
    with pytest.raises(ValueError, match=r"2 workers and no servers: call `fleet.init\(is_coll"):
        fleet.Fleet().init()


def test_collective_calls_work_in_one_process(environment):
    x = paddle.to_tensor([1.0, 2.0])
    assert paddle.distributed.all_reduce(x, sync_op=False).wait()
    parts = []
    paddle.distributed.all_gather(parts, x)
    paddle.distributed.broadcast(x, src=0)
    paddle.distributed.barrier()
    assert [part.tolist() for part in parts] == [[1.0, 2.0]]
    assert paddle.distributed.get_group(0).ranks == [0]


def test_a_tensor_that_was_reduced_keeps_its_gradient(environment):
    x = paddle.to_tensor([3.0], stop_gradient=False)
    loss = x * x
    paddle.distributed.all_reduce(loss)
    loss.backward()
    assert x.grad.tolist() == [6.0]


def test_data_parallel_in_one_process_is_the_model(environment):
    model = paddle.nn.Linear(2, 1)
    parallel = paddle.DataParallel(model)
    with parallel.no_sync():
        parallel(paddle.ones([1, 2])).backward()
    assert model.weight.grad.tolist() == [[1.0], [1.0]]
    assert list(parallel.state_dict()) == ["weight", "bias"]
    parallel.set_state_dict(model.state_dict())
    with pytest.warns(DeprecationWarning):
        assert parallel.scale_loss(7) == 7
    with pytest.raises(TypeError, match="`layers` must be a Layer, not int"):
        paddle.DataParallel(3)


def test_gradients_are_merged(environment):
    layer = paddle.nn.Linear(1, 1, bias_attr=False)
    before = layer.weight.numpy()
    strategy = fleet.DistributedStrategy()
    strategy.gradient_merge = True
    strategy.gradient_merge_configs = {"k_steps": 2, "avg": True}
    fleet.init(is_collective=True, strategy=strategy)
    sgd = fleet.distributed_optimizer(paddle.optimizer.SGD(1.0, parameters=layer.parameters()))
    for value in (1.0, 3.0):
        np.testing.assert_array_equal(layer.weight.numpy(), before)
        layer(paddle.full([1, 1], value)).backward()
        sgd.step()
        sgd.clear_grad()
    np.testing.assert_allclose(layer.weight.numpy(), before - 2.0)


def test_a_server_without_the_addresses_of_servers_is_refused(environment):
    environment.setenv("TRAINING_ROLE", "PSERVER")
    with pytest.raises(ValueError, match="Can not find PADDLE_PSERVERS_IP_PORT_LIST"):
        fleet.Fleet().init()


def test_fleet_says_who_it_is_once_initialised(environment):
    job = fleet.Fleet()
    with pytest.raises(RuntimeError, match=r"call `fleet.init\(\)`"):
        job.worker_index()
    job.init(is_collective=True)
    assert (job.worker_index(), job.worker_num()) == (0, 1)
    assert job.is_first_worker() and job.is_worker() and not job.is_server()
    job.barrier_worker()


@pytest.mark.parametrize("method", ["init_server", "run_server", "init_worker", "stop_worker"])
def test_what_is_about_servers_does_nothing_without_them_and_says_so(environment, caplog, method):
    job = fleet.Fleet().init()
    assert getattr(job, method)() is None
    text = f"{method}() function doesn't work when use non_distributed fleet."
    assert [record.getMessage() for record in caplog.records] == [text]


def test_strategy_refuses_unknown_names_with_the_nearest():
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    strategy.a_sync_configs = {"k_steps": 400}
    assert strategy.a_sync_configs["k_steps"] == 400
    assert strategy.a_sync_configs["send_queue_size"] == 16
    with pytest.raises(AttributeError, match="did you mean `a_sync_configs`"):
        strategy.a_sync_config = {}
    with pytest.raises(ValueError, match="did you mean `k_steps`"):
        strategy.a_sync_configs = {"k_step": 1}
    with pytest.raises(ValueError, match="The type of `flag` is invalid, expected type is bool"):
        strategy.a_sync = "yes"
    with pytest.raises(TypeError, match="`k_steps` of `a_sync_configs` must be of type int"):
        strategy.a_sync_configs = {"k_steps": "many"}


def test_features_that_are_not_there_raise_in_minimize(environment):
    strategy = fleet.DistributedStrategy()
    strategy.recompute = True
    paddle.enable_static()
    loss = paddle.mean(paddle.static.nn.fc(paddle.static.data("x", [None, 2]), 1))
    fleet.init(is_collective=True)
    optimizer = fleet.distributed_optimizer(paddle.optimizer.SGD(0.1), strategy)
    with pytest.raises(NotImplementedError, match="`recompute` of `DistributedStrategy` is not"):
        optimizer.minimize(loss)


def test_strategies_do_not_share_their_settings():
    first, second = fleet.DistributedStrategy(), fleet.DistributedStrategy()
    first.a_sync_configs["k_steps"] = 7
    assert second.a_sync_configs["k_steps"] == -1


def test_distributed_optimizer_trains_as_the_optimizer_does(environment):
    def losses(distributed):
        layer = paddle.nn.Linear(3, 1, weight_attr=paddle.nn.initializer.Constant(0.5))
        optimizer = paddle.optimizer.SGD(0.1, parameters=layer.parameters())
        if distributed:
            fleet.init(is_collective=True)
            optimizer = fleet.distributed_optimizer(optimizer, fleet.DistributedStrategy())
            layer = fleet.distributed_model(layer)
        seen = []
        for _ in range(3):
            loss = paddle.mean(layer(paddle.ones([4, 3])))
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            seen.append(loss.item())
        return seen

    assert losses(False) == losses(True)


def test_files_are_shared_out_in_runs(environment):
    files = list("abcdefg")
    environment.setenv("PADDLE_TRAINERS_NUM", "3")
    shares = []
    for rank in range(3):
        environment.setenv("PADDLE_TRAINER_ID", str(rank))
        shares.append(fleet.util.get_file_shard(files))
    assert shares == [["a", "b", "c"], ["d", "e"], ["f", "g"]]


def test_all_reduce_of_one_process_is_its_own_value(environment):
    assert fleet.util.all_reduce(np.array([1.0, 2.0])).tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="`mode` must be sum, min or max"):
        fleet.util.all_reduce([1], mode="mean")
