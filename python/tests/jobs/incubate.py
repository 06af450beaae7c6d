"""A job of `fluid.incubate.fleet` with every strategy of its factory."""

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


fleet.init(role_maker.PaddleCloudRoleMaker())
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
