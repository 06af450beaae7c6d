"""Both `fleet`s with parameter servers; the engine's part is a fake that notes what it is told."""

import bireme as paddle
import numpy as np
import pytest
from bireme import fluid
from bireme.distributed import fleet as second
from bireme.distributed.fleet.exchange import decode, encode
from bireme.distributed.fleet.util import UtilBase
from bireme.fluid.incubate.fleet.base import role_maker
from bireme.fluid.incubate.fleet.parameter_server.distribute_transpiler import FleetTranspiler
from bireme.fluid.incubate.fleet.parameter_server.pslib import PSLib
from fake_core import install, replaceable

SERVERS = ["127.0.0.1:36001", "127.0.0.1:36002"]


@pytest.fixture
def core(monkeypatch):
    paddle.enable_static()
    # Nobody listens.
    monkeypatch.setenv("FLAGS_LAUNCH_BARRIER", "0")
    return install(monkeypatch)


def model():
    x = paddle.static.data("x", [None, 2])
    prediction = paddle.static.nn.fc(x, 1, weight_attr=paddle.ParamAttr(name="w"), bias_attr=False)
    return prediction, paddle.mean(prediction)


def started(index=0, role=second.Role.WORKER, strategy=None):
    """A job of two workers and two servers after `minimize`, and what its programs became."""
    job = second.Fleet().init(
        second.UserDefinedRoleMaker(
            current_id=index, role=role, worker_num=2, server_endpoints=SERVERS
        )
    )
    _, loss = model()
    programs = paddle.static.default_main_program(), paddle.static.default_startup_program()
    taken = replaceable(*programs)
    job.distributed_optimizer(paddle.optimizer.SGD(0.1), strategy).minimize(loss)
    return job, taken


def test_a_worker_becomes_a_trainer(core):
    transpilers, fleets = core
    strategy = second.DistributedStrategy()
    strategy.a_sync = True
    strategy.a_sync_configs = {"k_steps": 10}
    job, taken = started(1, strategy=strategy)
    assert transpilers.made[0].calls == [(1, SERVERS, 2, False)]
    assert transpilers.made[0].config["geo_sgd_mode"]
    assert taken == ["trainer main", "trainer startup"]
    assert job.main_program is paddle.static.default_main_program()
    (engine,) = fleets.made
    assert (engine.settings["mode"], engine.settings["k_steps"]) == ("geo", 10)
    job.init_worker()
    job.barrier_worker()
    job.stop_worker()
    assert [call[0] for call in engine.calls[1:]] == ["init_worker", "barrier", "stop_worker"]


def test_a_server_gets_the_programs_of_its_address(core, tmp_path):
    _, fleets = core
    job, taken = started(1, second.Role.SERVER)
    assert taken == []
    assert job.main_program == f"server main of {SERVERS[1]}"
    with pytest.raises(RuntimeError, match="call `init_server` before"):
        job.run_server()
    with pytest.raises(ValueError, match="There is no directory named 'nowhere'"):
        job.init_server("nowhere")
    with pytest.raises(
        ValueError, match=r"fleet.init server can only load sparse variables in \[\]"
    ):
        job.init_server(str(tmp_path), ["w"])
    job.init_server(str(tmp_path))
    job.run_server()
    assert fleets.made[0].calls[1:] == [("init_server", str(tmp_path), None), ("run_server",)]
    with pytest.raises(RuntimeError, match="`init_worker` is for a worker, but this process is"):
        job.init_worker()


def test_the_order_of_calls_is_checked(core):
    job = second.Fleet().init(
        second.UserDefinedRoleMaker(worker_num=1, server_endpoints=SERVERS[:1])
    )
    with pytest.raises(ValueError, match="Fleet can not find suitable runtime handler"):
        job.init_worker()
    with pytest.raises(ValueError, match="call `fleet.distributed_optimizer` before"):
        job.minimize(None)
    job, _ = started()
    with pytest.raises(RuntimeError, match="call `init_worker` before"):
        job.barrier_worker()


def test_worker_0_saves_and_all_load(core):
    _, fleets = core
    for index in range(2):
        with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
            job, _ = started(index)
        job.init_worker()
        job.save_persistables(None, "out", mode=1)
        job.save_one_table(3, "table", format="paddle_text")
        job.shrink()
        job.load_model("in")
    first, other = [[call for call in engine.calls[2:]] for engine in fleets.made]
    assert first == [
        ("save", "out", 1, None, "native"),
        ("save", "table", 0, 3, "paddle_text"),
        ("shrink", None),
        ("barrier", "worker"),
        ("load", "in", 0, None),
        ("refresh",),
    ]
    assert other == [("barrier", "worker"), ("refresh",)]
    assert job.table_stat()[0]["name"] == "emb"
    with pytest.raises(ValueError, match="`format` must be native or paddle_text"):
        job.save_persistables(None, "out", format="csv")
    with pytest.raises(ValueError, match="set `delete_threshold` of the table's accessor"):
        job.shrink(0.5)


def test_a_model_for_prediction_has_the_parameters_of_the_servers(core, tmp_path):
    job, _ = started()
    job.init_worker()
    main = paddle.static.default_main_program()
    target = next(op.output("Out")[0] for op in main.global_block().ops if op.type == "mul")
    job.save_inference_model(None, str(tmp_path), ["x"], [target])
    exe = fluid.Executor(fluid.CPUPlace())
    program, feeds, fetches = fluid.io.load_inference_model(str(tmp_path), exe)
    (got,) = exe.run(program, feed={feeds[0]: np.ones([1, 2], "float32")}, fetch_list=fetches)
    assert got.tolist() == [[1.0]]


def test_a_model_for_prediction_keeps_what_only_the_worker_has(core, tmp_path):
    x = paddle.static.data("x", [None, 2])
    hidden = paddle.static.nn.fc(x, 1, weight_attr=paddle.ParamAttr(name="w"), bias_attr=False)
    offset = paddle.static.create_global_var([1], 3.0, "float32", persistable=True, name="offset")
    prediction = hidden + offset
    main, startup = paddle.static.default_main_program(), paddle.static.default_startup_program()
    fluid.Executor(fluid.CPUPlace()).run(startup)
    replaceable(main, startup)
    job = second.Fleet().init(
        second.UserDefinedRoleMaker(worker_num=1, server_endpoints=SERVERS[:1])
    )
    job.distributed_optimizer(paddle.optimizer.SGD(0.1)).minimize(paddle.mean(prediction))
    job.init_worker()
    job.save_inference_model(None, str(tmp_path), ["x"], [prediction])
    assert paddle._core.load_tensor(str(tmp_path / "offset")).tolist() == [3.0]
    # Of what both have, the servers' value counts.
    assert paddle._core.load_tensor(str(tmp_path / "w")).tolist() == [[0.5], [0.5]]


def test_tables_are_fetched_for_a_model_for_prediction(core, tmp_path):
    ids = paddle.static.data("ids", [None, 1], "int64", lod_level=1)
    attr = paddle.ParamAttr(name="emb")
    rows = paddle.static.nn.sparse_embedding(ids, [10, 4], param_attr=attr)
    loss = paddle.mean(rows)
    replaceable(paddle.static.default_main_program(), paddle.static.default_startup_program())
    job = second.Fleet().init(
        second.UserDefinedRoleMaker(worker_num=1, server_endpoints=SERVERS[:1])
    )
    job.distributed_optimizer(paddle.optimizer.SGD(0.1)).minimize(loss)
    job.init_worker()
    job.save_inference_model(None, str(tmp_path), ["ids"], [rows])
    assert (tmp_path / "emb").exists()


def test_dense_parameters_are_saved_one_by_one(core, tmp_path):
    job, _ = started()
    job.init_worker()
    job.save_dense_params(None, str(tmp_path))
    assert paddle._core.load_tensor(str(tmp_path / "w")).tolist() == [[0.5], [0.5]]
    with pytest.raises(ValueError, match="the servers have no dense parameter `v`, but w"):
        job.save_dense_params(None, str(tmp_path), var_names=["v"])


def test_workers_tell_each_other_values(core):
    job, _ = started()
    job.init_worker()
    assert job.util.all_reduce(np.array([1.0, 2.0])).tolist() == [2.0, 4.0]
    assert job.util.all_gather({"auc": 0.5}) == [{"auc": 0.5}] * 2
    assert job.util.get_file_shard(list("abc")) == ["a", "b"]
    assert job.all_reduce(3, "max") == 3
    with pytest.raises(ValueError, match="`comm_world` must be worker, server or all"):
        job.util.barrier("trainers")


def test_values_travel_without_pickles():
    values = [7, "text", [1, 2.5], None, np.array([[1, 2]], "int64"), np.float32(0.5)]
    for value in values:
        np.testing.assert_array_equal(decode(encode(value)), value)
    with pytest.raises(TypeError, match="a `object` cannot be sent to other workers"):
        encode(object())
    with pytest.raises(ValueError, match="neither JSON nor an array"):
        decode(b"\x80pickle")


class TwoWorkers(UtilBase):
    """A `util` whose other worker has counted other values."""

    def __init__(self, others):
        super().__init__()
        self.others = others

    def all_gather(self, input, comm_world="worker"):
        return [input, self.others.pop(0)]


def test_metrics_are_those_of_all_workers():
    metrics = second.metrics

    def both(*others):
        return {"util": TwoWorkers([np.asarray(other, "float64") for other in others])}

    assert metrics.sum(np.array([1.0, 2.0]), **both([3, 4])).tolist() == [4.0, 6.0]
    assert metrics.max(np.array([1.0, 9.0]), **both([3, 4])).tolist() == [3.0, 9.0]
    assert metrics.min(np.array([1.0, 9.0]), **both([3, 4])).tolist() == [1.0, 4.0]
    assert metrics.acc(np.array([3.0]), np.array([4.0]), **both([1], [4])) == 0.5
    assert metrics.mae(np.array([3.0]), np.array([2.0]), **both([5], [2])) == 2.0
    assert metrics.mse(np.array([10.0]), np.array([2.0]), **both([6], [2])) == 4.0
    assert metrics.rmse(np.array([10.0]), np.array([2.0]), **both([6], [2])) == 2.0
    positives, negatives = np.array([[0, 1, 3]]), np.array([[2, 1, 0]])
    alone = metrics.auc(positives, negatives)
    together = metrics.auc(positives, negatives, **both([[3, 1, 0]], [[0, 1, 2]]))
    assert alone > 0.9 and 0.4 < together < 0.6
    assert metrics.auc(np.zeros([1, 3]), negatives) == 0.5
    with pytest.raises(ValueError, match="no worker has counted a sample"):
        metrics.acc(np.zeros(1), np.zeros(1))
    with pytest.raises(ValueError, match="there is no variable `nothing` in the scope"):
        metrics.sum("nothing")


def first_job(kind=FleetTranspiler, index=0, role=role_maker.Role.WORKER):
    job = kind()
    job.init(role_maker.UserDefinedRoleMaker(index, role, 2, SERVERS))
    return job


def test_the_first_fleet_trains_synchronously_by_default(core, capsys):
    transpilers, fleets = core
    job = first_job()
    assert job.main_program is None
    _, loss = model()
    taken = replaceable(fluid.default_main_program(), fluid.default_startup_program())
    job.distributed_optimizer(fluid.optimizer.SGD(0.1)).minimize(loss)
    assert transpilers.made[0].calls == [(0, SERVERS, 2, True)]
    assert taken == ["trainer main", "trainer startup"]
    job.init_worker()
    assert "TrainerRuntimeConfig Overview" in capsys.readouterr().out
    assert job.startup_program is fluid.default_startup_program()
    total = np.zeros(2)
    job.all_reduce_worker(np.array([1.0, 2.0]), total)
    assert total.tolist() == [2.0, 4.0]
    job.save_persistables(None, "out")
    job.stop_worker()
    assert fleets.made[0].settings["mode"] == "sync"
    assert ("save", "out", 0, None, "native") in fleets.made[0].calls


def test_the_first_fleet_takes_the_config_of_the_transpiler(core):
    transpilers, _ = core
    job = first_job(index=1, role=role_maker.Role.SERVER)
    _, loss = model()
    config = fluid.DistributeTranspilerConfig()
    config.sync_mode = False
    config.runtime_split_send_recv = True
    config.slice_var_up = False
    job.distributed_optimizer(fluid.optimizer.Adam(0.1), config).minimize(loss)
    assert transpilers.made[0].calls == [(0, SERVERS, 2, False)]
    assert transpilers.made[0].config["slice_var_up"] is False
    job.init_server()
    job.run_server()


def test_the_first_fleet_checks_what_it_is_given(core):
    job = FleetTranspiler()
    sgd = fluid.optimizer.SGD(0.1)
    with pytest.raises(ValueError, match=r"fleet.init\(role\) to initialize before"):
        job.distributed_optimizer(sgd)
    job = first_job()
    with pytest.raises(ValueError, match="optimizer must be an instance of Optimizer"):
        job.distributed_optimizer("sgd")
    with pytest.raises(TypeError, match="Dict strategy can only be used at PSLIB Mode"):
        job.distributed_optimizer(sgd, {})
    with pytest.raises(TypeError, match="strategy must be an instance of Distribute"):
        job.distributed_optimizer(sgd, 7)
    with pytest.raises(ValueError, match="need invoke DistributedOptimizer.minimize first"):
        job.init_server()


def test_pslib_describes_its_tables(core, capsys):
    transpilers, fleets = core
    job = first_job(PSLib)
    ids = paddle.static.data("ids", [None, 1], "int64", lod_level=1)
    attr = paddle.ParamAttr(name="emb")
    loss = paddle.mean(paddle.static.nn.sparse_embedding(ids, [10, 11], param_attr=attr))
    replaceable(fluid.default_main_program(), fluid.default_startup_program())
    strategy = {"emb": {"sparse_embedx_dim": 8}}
    job.distributed_optimizer(fluid.optimizer.SGD(0.1), strategy).minimize([loss])
    assert transpilers.made[0].calls == [(0, SERVERS, 2, False)]
    job.init_worker()
    job.print_table_stat(0)
    assert "name: emb, rows: 3, bytes: 120" in capsys.readouterr().out
    job.clear_one_table(0)
    job.shrink_sparse_table()
    assert fleets.made[0].calls[-2:] == [("clear", 0), ("shrink", None)]
