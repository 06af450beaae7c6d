"""`fleet`: distributed jobs. This module is itself the job: its functions are those of one `Fleet`.

>>> import bireme.distributed.fleet as fleet
>>> job = fleet.init(is_collective=True)
>>> fleet.worker_index(), fleet.worker_num()
(0, 1)

Parameter servers (`init_server`, `run_server`, `init_worker`, ...) and datasets are missing.
"""

from ..._missing import missing_names
from .data_generator import MultiSlotDataGenerator, MultiSlotStringDataGenerator
from .fleet import Fleet
from .role import PaddleCloudRoleMaker, Role, UserDefinedRoleMaker
from .strategy import DistributedStrategy
from .util import UtilBase

_job = Fleet()

init = _job.init
barrier_worker = _job.barrier_worker
distributed_model = _job.distributed_model
distributed_optimizer = _job.distributed_optimizer
is_first_worker = _job.is_first_worker
is_server = _job.is_server
is_worker = _job.is_worker
save_inference_model = _job.save_inference_model
save_persistables = _job.save_persistables
util = _job.util
worker_endpoints = _job.worker_endpoints
worker_index = _job.worker_index
worker_num = _job.worker_num

__all__ = [
    "DistributedStrategy",
    "Fleet",
    "MultiSlotDataGenerator",
    "MultiSlotStringDataGenerator",
    "PaddleCloudRoleMaker",
    "Role",
    "UserDefinedRoleMaker",
    "UtilBase",
    "barrier_worker",
    "distributed_model",
    "distributed_optimizer",
    "init",
    "is_first_worker",
    "is_server",
    "is_worker",
    "save_inference_model",
    "save_persistables",
    "util",
    "worker_endpoints",
    "worker_index",
    "worker_num",
]

__getattr__ = missing_names(__name__)
