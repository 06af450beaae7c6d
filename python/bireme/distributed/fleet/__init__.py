"""`fleet`: distributed jobs. This module is itself the job: its functions are those of one `Fleet`.

>>> import bireme.distributed.fleet as fleet
>>> job = fleet.init(is_collective=True)
>>> fleet.worker_index(), fleet.worker_num()
(0, 1)

With parameter servers every process runs the same script:

    fleet.init(role_maker)
    ...                                   # build the network
    fleet.distributed_optimizer(optimizer, strategy).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()                # returns when the workers are done
    else:
        exe.run(paddle.static.default_startup_program())
        fleet.init_worker()
        ...                               # train
        fleet.stop_worker()

In a collective job there are no servers, and in eager mode gradients are averaged:

    fleet.init(is_collective=True)
    model = fleet.distributed_model(model)
    optimizer = fleet.distributed_optimizer(optimizer)
    ...                                   # train as in one process

`Executor.train_from_dataset` trains on a `QueueDataset` or an `InMemoryDataset`.
"""

from typing import Any

from ..._missing import missing_names
from ..._names import set_public_names
from . import base, metrics
from .data_generator import MultiSlotDataGenerator as MultiSlotDataGenerator
from .data_generator import MultiSlotStringDataGenerator as MultiSlotStringDataGenerator
from .dataset import *
from .fleet import Fleet as Fleet
from .role import PaddleCloudRoleMaker as PaddleCloudRoleMaker
from .role import Role as Role
from .role import UserDefinedRoleMaker as UserDefinedRoleMaker
from .strategy import DistributedStrategy as DistributedStrategy
from .util import UtilBase as UtilBase

_job = Fleet()

init = _job.init
all_reduce = _job.all_reduce
barrier_worker = _job.barrier_worker
distributed_model = _job.distributed_model
distributed_optimizer = _job.distributed_optimizer
init_server = _job.init_server
init_worker = _job.init_worker
is_coordinator = _job.is_coordinator
is_first_worker = _job.is_first_worker
is_server = _job.is_server
is_worker = _job.is_worker
is_heter_worker = _job.is_heter_worker
init_heter_worker = _job.init_heter_worker
run_heter_worker = _job.run_heter_worker
last_checkpoint = _job.last_checkpoint
load_inference_model = _job.load_inference_model
load_model = _job.load_model
load_one_table = _job.load_one_table
local_device_ids = _job.local_device_ids
local_rank = rank_in_node = _job.local_rank
minimize = _job.minimize
node_num = _job.node_num
run_server = _job.run_server
save = _job.save
save_dense_params = _job.save_dense_params
save_inference_model = _job.save_inference_model
save_one_table = _job.save_one_table
save_persistables = _job.save_persistables
server_endpoints = _job.server_endpoints
server_index = _job.server_index
server_num = _job.server_num
shrink = _job.shrink
stop_worker = _job.stop_worker
table_stat = _job.table_stat
util = _job.util
worker_endpoints = _job.worker_endpoints
worker_index = rank = _job.worker_index
worker_num = nranks = world_size = _job.worker_num
world_device_ids = _job.world_device_ids

set_public_names(__name__, also="base metrics util")
_missing = missing_names(__name__)


def __getattr__(name: str) -> Any:
    # They come into being with `minimize`.
    if name in ("main_program", "startup_program"):
        return getattr(_job, name)
    return _missing(name)
