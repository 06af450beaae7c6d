"""`DistributedStrategy`: how a job is distributed, as named settings."""

from __future__ import annotations

from typing import Any, ClassVar

from ...static.executor import BuildStrategy, ExecutionStrategy
from ...static.settings import Settings, unknown_setting

# Switches that would change what even one process computes, and that the engine does not have.
_NOT_THERE = [
    "amp",
    "asp",
    "dgc",
    "fp16_allreduce",
    "gradient_merge",
    "lamb",
    "lars",
    "localsgd",
    "adaptive_localsgd",
    "pipeline",
    "qat",
    "recompute",
    "sharding",
    "tensor_parallel",
    "semi_auto",
    "auto",
    "auto_search",
]


class DistributedStrategy(Settings):
    """The settings of a distributed job; unknown names and wrong types raise.

    Those about how processes talk have no effect in a job of one process. Those that would change
    what it computes (`amp`, `recompute`, `gradient_merge`, ...) raise when they are switched on.

    >>> strategy = paddle.distributed.fleet.DistributedStrategy()
    >>> strategy.a_sync = True
    >>> strategy.a_sync_configs = {"k_steps": 100}
    >>> strategy.a_synch = True
    Traceback (most recent call last):
    ...
    AttributeError: `DistributedStrategy` has no setting `a_synch`: did you mean `a_sync`?
    """

    DEFAULTS: ClassVar[dict[str, Any]] = {
        **dict.fromkeys(_NOT_THERE, False),
        "a_sync": False,
        "a_sync_configs": {
            "k_steps": -1,
            "max_merge_var_num": 1,
            "send_queue_size": 16,
            "independent_recv_thread": False,
            "min_send_grad_num_before_recv": 1,
            "thread_pool_size": 1,
            "send_wait_times": 1,
            "runtime_split_send_recv": False,
            "launch_barrier": True,
            "heter_worker_device_guard": "cpu",
            "lr_decay_steps": 10,
            "use_ps_gpu": 0,
            "use_gpu_graph": 0,
        },
        "amp_configs": {},
        "build_strategy": None,
        "cudnn_batchnorm_spatial_persistent": False,
        "cudnn_exhaustive_search": False,
        "conv_workspace_size_limit": 512,
        "elastic": False,
        "execution_strategy": None,
        "find_unused_parameters": False,
        "fuse_all_reduce_ops": True,
        "fuse_grad_size_in_MB": 32,
        "fuse_grad_size_in_num": 8,
        "gradient_scale_configs": {"scale_strategy": "avg"},
        "hierarchical_allreduce_inter_nranks": 1,
        "hybrid_configs": {"dp_degree": -1, "mp_degree": 1, "pp_degree": 1, "sharding_degree": 1},
        "last_comm_group_size_MB": 1.0,
        "nccl_comm_num": 1,
        "split_data": True,
        "sync_batch_norm": False,
        "sync_nccl_allreduce": True,
        "use_hierarchical_allreduce": False,
        "without_graph_optimization": True,
    }

    def __init__(self) -> None:
        super().__init__()
        self.build_strategy = BuildStrategy()
        self.execution_strategy = ExecutionStrategy()

    def _checked(self, name: str, value: Any) -> Any:
        if name in _NOT_THERE and value:
            raise NotImplementedError(f"`{name}` of `DistributedStrategy` is not in this version")
        default = self.DEFAULTS[name]
        if isinstance(default, dict) and isinstance(value, dict):
            for key in set(value) - set(default):
                raise ValueError(unknown_setting(name, key, default))
        if name == "hybrid_configs" and any(degree > 1 for degree in value.values()):
            raise NotImplementedError(f"more than one process is not in this version: {value}")
        return super()._checked(name, value)
