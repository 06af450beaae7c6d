"""Distributed training: parameter servers by `fleet` or `transpiler`, collective calls, `spawn`.

Datasets are missing.
"""

from .._missing import missing_names
from . import communication, fleet, transpiler
from .communication import (
    P2POp,
    ReduceOp,
    all_gather,
    all_gather_object,
    all_reduce,
    alltoall,
    alltoall_single,
    barrier,
    batch_isend_irecv,
    broadcast,
    broadcast_object_list,
    destroy_process_group,
    gather,
    get_backend,
    get_group,
    irecv,
    is_available,
    is_initialized,
    isend,
    new_group,
    recv,
    reduce,
    reduce_scatter,
    scatter,
    scatter_object_list,
    send,
    stream,
    wait,
)
from .data_parallel import DataParallel
from .entry import CountFilterEntry, ProbabilityEntry, ShowClickEntry
from .gloo import gloo_barrier, gloo_init_parallel_env, gloo_release
from .parallel import ParallelEnv, get_rank, get_world_size, init_parallel_env, split
from .spawn import spawn

__all__ = [
    "CountFilterEntry",
    "DataParallel",
    "P2POp",
    "ParallelEnv",
    "ProbabilityEntry",
    "ReduceOp",
    "ShowClickEntry",
    "all_gather",
    "all_gather_object",
    "all_reduce",
    "alltoall",
    "alltoall_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "communication",
    "destroy_process_group",
    "fleet",
    "gather",
    "get_backend",
    "get_group",
    "get_rank",
    "get_world_size",
    "gloo_barrier",
    "gloo_init_parallel_env",
    "gloo_release",
    "init_parallel_env",
    "irecv",
    "is_available",
    "is_initialized",
    "isend",
    "new_group",
    "recv",
    "reduce",
    "reduce_scatter",
    "scatter",
    "scatter_object_list",
    "send",
    "spawn",
    "split",
    "stream",
    "transpiler",
    "wait",
]

__getattr__ = missing_names(__name__)
