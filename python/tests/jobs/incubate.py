"""A job of `fluid.incubate.fleet` with every strategy of its factory."""

import os

import ctr_model
import paddle
from ctr_model import IDS, WIDTH, option
from paddle import fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    StrategyFactory,
)

paddle.enable_static()
fluid.default_startup_program().random_seed = 11


def embed(ids):
    return fluid.layers.embedding(
        ids, [IDS, WIDTH], is_sparse=True, param_attr=fluid.ParamAttr(name="emb")
    )


def user_defined():
    """The role of the environment, said by the script."""
    servers = os.environ["PADDLE_PSERVERS_IP_PORT_LIST"].split(",")
    is_server = os.environ["TRAINING_ROLE"] == "PSERVER"
    index = os.environ["PADDLE_PSERVER_ID" if is_server else "PADDLE_TRAINER_ID"]
    role = role_maker.Role.SERVER if is_server else role_maker.Role.WORKER
    workers = int(os.environ["PADDLE_TRAINERS_NUM"])
    return role_maker.UserDefinedRoleMaker(int(index), role, workers, servers)


makers = {
    "cloud": role_maker.PaddleCloudRoleMaker,
    "user": user_defined,
    "mpi": role_maker.MPISymetricRoleMaker,
}
fleet.init(makers[option("ROLE", "cloud")]())
if option("ROLE", "cloud") == "mpi" and fleet.is_worker():
    # By MPI, so that no server is needed for it.
    total = [0.0, 0.0]
    fleet.all_reduce_worker([1.0, fleet.worker_index()], total)
    assert total == [fleet.worker_num(), sum(range(fleet.worker_num()))], total
    fleet.barrier_worker()
    if option("FAIL", "") == str(fleet.worker_index()):
        raise RuntimeError("this worker fails")
prediction, loss = ctr_model.network(embed)
strategies = {
    "sync": StrategyFactory.create_sync_strategy,
    "half_async": StrategyFactory.create_half_async_strategy,
    "async": StrategyFactory.create_async_strategy,
    "geo": lambda: StrategyFactory.create_geo_strategy(update_frequency=2),
}
strategy = strategies[option("MODE", "sync")]()
fleet.distributed_optimizer(fluid.optimizer.SGD(0.1), strategy).minimize(loss)

if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    exe = fluid.Executor(fluid.CPUPlace())
    fleet.init_worker()
    exe.run(fleet.startup_program)
    ctr_model.train(exe, fleet.main_program, loss, fleet.worker_index(), fleet.worker_num())
    fleet.stop_worker()
