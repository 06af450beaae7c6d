"""Calls that several processes make together, as Paddle groups them."""

from ..._missing import missing_names
from . import stream
from .calls import (
    all_gather,
    all_reduce,
    alltoall,
    alltoall_single,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
    scatter,
)
from .group import (
    Group,
    barrier,
    destroy_process_group,
    get_backend,
    get_group,
    is_available,
    is_initialized,
    new_group,
    wait,
)
from .objects import all_gather_object, broadcast_object_list, scatter_object_list
from .point_to_point import P2POp, batch_isend_irecv, irecv, isend, recv, send
from .reduce_op import ReduceOp

__all__ = [
    "Group",
    "P2POp",
    "ReduceOp",
    "all_gather",
    "all_gather_object",
    "all_reduce",
    "alltoall",
    "alltoall_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "destroy_process_group",
    "gather",
    "get_backend",
    "get_group",
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
    "stream",
    "wait",
]

__getattr__ = missing_names(__name__)
