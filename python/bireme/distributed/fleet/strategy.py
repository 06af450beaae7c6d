"""`DistributedStrategy`: how a job is distributed, as named settings.

Names and defaults are those of Paddle's `distributed_strategy.proto`.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

from ...static.executor import BuildStrategy, ExecutionStrategy
from ...static.settings import Settings, unknown_setting
from .stages import DEVICES
from .tables import read_fleet_desc, read_tables

# Switches that would change what a job computes, and that are not there: they may be set, as
# scripts write them down long before they know whether they need them, and raise in `minimize`.
_NOT_THERE = [
    "adaptive_localsgd",
    "asp",
    "auto",
    "auto_search",
    "dgc",
    "elastic",
    "fp16_allreduce",
    "fuse_grad_merge",
    "gradient_merge",
    "heter_ccl_mode",
    "is_fl_ps_mode",
    # The name of `with_coordinator` in Paddle 2.5 and 2.6.
    "is_with_coordinator",
    "lamb",
    "lars",
    "localsgd",
    "pipeline",
    "qat",
    "recompute",
    "semi_auto",
    "sharding",
    "tensor_parallel",
    "with_coordinator",
]

_LOCALSGD = {"k_steps": 1, "begin_step": 1}
_CONFIGS: dict[str, dict[str, Any]] = {
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
        # Bireme's own.
        "half_async": False,
        "hybrid": False,
        "staleness": 4,
        "dc_asgd": 0.0,
    },
    "adaptive_localsgd_configs": {"init_k_steps": 1, "begin_step": 1},
    "amp_configs": {
        "init_loss_scaling": 32768.0,
        "incr_every_n_steps": 1000,
        "decr_every_n_nan_or_inf": 2,
        "incr_ratio": 2.0,
        "decr_ratio": 0.8,
        "use_dynamic_loss_scaling": True,
        "custom_white_list": [],
        "custom_black_list": [],
        "custom_black_varnames": [],
        "use_pure_fp16": False,
        "use_fp16_guard": True,
        "use_optimizer_fp16": False,
        "use_pure_bf16": False,
        # Bireme's own: bfloat16 instead of float16.
        "use_bf16": False,
    },
    "dgc_configs": {"rampup_begin_step": 0, "rampup_step": 1, "sparsity": []},
    "fs_client_param": {"uri": "", "user": "", "passwd": "", "hadoop_bin": ""},
    "gradient_merge_configs": {"k_steps": 1, "avg": True},
    "gradient_scale_configs": {"scale_strategy": "avg", "scale_gradient": False},
    "hybrid_configs": {
        "dp_degree": -1,
        "mp_degree": 1,
        "pp_degree": 1,
        "sharding_degree": 1,
        "sep_degree": 1,
    },
    "lamb_configs": {"lamb_weight_decay": 0.01, "exclude_from_weight_decay": []},
    "lars_configs": {
        "lars_coeff": 0.001,
        "lars_weight_decay": 0.0005,
        "epsilon": 0.0,
        "exclude_from_weight_decay": [],
    },
    "localsgd_configs": _LOCALSGD,
    "pipeline_configs": {
        "micro_batch_size": 1,
        "accumulate_steps": 1,
        "schedule_mode": "1F1B",
        "p2p_cache_shape": True,
        "enable_partial_send_recv": True,
    },
    "qat_configs": {
        "channel_wise_abs_max": True,
        "weight_bits": 8,
        "activation_bits": 8,
        "not_quant_pattern": [],
        "algo": "",
    },
    "recompute_configs": {
        "checkpoints": [],
        "enable_offload": False,
        "checkpoint_shape": [],
        "enable_tuning": False,
        "refined_ops_patterns": [],
    },
    "sharding_configs": {
        "sharding_segment_strategy": "segment_broadcast_MB",
        "segment_broadcast_MB": 32.0,
        "segment_anchors": [],
        "sharding_degree": 8,
        "mp_degree": 1,
        "dp_degree": 1,
        "hybrid_dp": False,
        "gradient_merge_acc_step": 1,
        "optimize_offload": False,
        "pp_allreduce_in_optimize": False,
        "pp_degree": 1,
        "optimize_cast": False,
        "_dp_as_optimizer_sharding": False,
        "stage": 1,
        "enable_tuning": False,
        "use_calc_stream": False,
    },
    "tensor_parallel_configs": {"tensor_parallel_degree": 1, "tensor_init_seed": -1},
    "trainer_desc_configs": {
        "dump_fields_path": "",
        "dump_fields": [],
        "dump_param": [],
        "stat_var_names": [],
        "trainer": "",
        "device_worker": "",
        "local_sparse": [],
        "remote_sparse": [],
    },
}


class DistributedStrategy(Settings):
    """The settings of a distributed job; unknown names and wrong types raise.

    With parameter servers, `a_sync` and `a_sync_configs` say when trainers and servers exchange:

    - `a_sync = False`: synchronous;
    - `a_sync = True` (the default): asynchronous; with `k_steps` of `a_sync_configs` above 0
      every trainer trains on its own and exchanges differences every so many batches (geo);
    - Bireme's own entries of `a_sync_configs`: `half_async`; `hybrid` with at most `staleness`
      steps between tables and trainers; `dc_asgd`, the strength of delay compensation.

    With heter workers, `pipeline_configs["accumulate_steps"]` is the number of micro-batches that
    a batch is cut into; `pipeline` may be on or off, and the other entries have no meaning, nor
    has `heter_worker_device_guard`: the program is cut where `device_guard` says.

    Assigning `a_sync` sets `k_steps` back to 0: write it first. `sparse_table_configs` and
    `fleet_desc_configs` describe tables. Settings about how processes of a collective job talk
    have no effect in a job of one process. In a collective job `fuse_all_reduce_ops` and
    `fuse_grad_size_in_MB` say how gradients travel, `gradient_merge` and `localsgd` how often.
    With `amp` static programs are trained with mixed precision, as `amp_configs` says; with
    parameter servers that must be `use_bf16`, as servers know no scaled gradients.
    Features that are not there (`recompute`, `sharding`, ...) raise in `minimize` when they are
    switched on; `adam_d2sum`, which PaddleRec switches on, warns.

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
        **_CONFIGS,
        "a_sync": True,
        # No effect, with a warning: see `_refuse_what_is_not_there`.
        "adam_d2sum": False,
        "amp": False,
        "build_strategy": None,
        "calc_comm_same_stream": False,
        "conv_workspace_size_limit": 512,
        "cudnn_batchnorm_spatial_persistent": False,
        "cudnn_exhaustive_search": False,
        "execution_strategy": None,
        "find_unused_parameters": False,
        "fleet_desc_configs": {},
        "fuse_all_reduce_ops": True,
        "fuse_grad_size_in_MB": 32,
        "fuse_grad_size_in_TFLOPS": 50.0,
        "fuse_grad_size_in_num": 8,
        "hierarchical_allreduce_inter_nranks": 1,
        "last_comm_group_size_MB": 1.0,
        "nccl_comm_num": 1,
        "sparse_table_configs": {},
        "split_data": True,
        "sync_batch_norm": False,
        "sync_nccl_allreduce": True,
        "use_hierarchical_allreduce": False,
        "without_graph_optimization": True,
    }

    def __init__(self) -> None:
        super().__init__()
        self._tables: dict[str, dict[str, Any]] = {}
        for name, default in _CONFIGS.items():
            kept = {k: list(v) if isinstance(v, list) else v for k, v in default.items()}
            object.__setattr__(self, name, kept)
        self.build_strategy = BuildStrategy()
        self.execution_strategy = ExecutionStrategy()

    def _checked(self, name: str, value: Any) -> Any:
        if name == "a_sync" and not isinstance(value, bool):
            raise ValueError(
                f"The type of `flag` is invalid, expected type is bool, but received {type(value)}"
            )
        if name == "a_sync":
            self.a_sync_configs["k_steps"] = 0
        if name in ("sparse_table_configs", "fleet_desc_configs"):
            value = super()._checked(name, value)
            read = read_tables if name == "sparse_table_configs" else read_fleet_desc
            self._tables.update(read(value))
            return value
        if name in _CONFIGS and isinstance(value, dict):
            # Over what is set already, not over the defaults: a later assignment of one entry
            # keeps the earlier ones, as in Paddle.
            return {**getattr(self, name), **_checked_configs(name, value)}
        value = super()._checked(name, value)
        return value

    def _mode(self) -> str:
        """`sync`, `async`, `half_async`, `geo` or `hybrid`."""
        configs = self.a_sync_configs
        if configs["use_ps_gpu"]:
            # One trainer holds the rows of a pass, and trains them as sync training would.
            return "sync"
        chosen = [mode for mode in ("half_async", "hybrid") if configs[mode]]
        if configs["k_steps"] > 0:
            chosen.append("geo")
        if not self.a_sync and (chosen or configs["dc_asgd"]):
            what = chosen[0] if chosen else "dc_asgd"
            what = "k_steps" if what == "geo" else what
            raise ValueError(f"`{what}` of `a_sync_configs` needs `a_sync = True`, set before it")
        if len(chosen) > 1:
            raise ValueError(f"{' and '.join(chosen)} exclude each other in `a_sync_configs`")
        if configs["dc_asgd"] and chosen:
            raise ValueError(f"`dc_asgd` is for asynchronous training, not for {chosen[0]}")
        default = self.DEFAULTS["a_sync_configs"]["staleness"]
        if configs["staleness"] != default and "hybrid" not in chosen:
            raise ValueError("`staleness` of `a_sync_configs` is for `hybrid`: switch that on")
        return (chosen or ["async" if self.a_sync else "sync"])[0]

    def _amp_optimizer(self, optimizer: Any, has_servers: bool) -> Any:
        """The optimizer with the mixed precision that `amp` and `amp_configs` ask for."""
        if not self.amp:
            return optimizer
        from ...static.amp import AutoMixedPrecisionLists, decorate

        configs = self.amp_configs
        half = not (configs["use_bf16"] or configs["use_pure_bf16"])
        pure = configs["use_pure_fp16"] or configs["use_pure_bf16"]
        if has_servers and (half or pure):
            raise ValueError(
                "with parameter servers, `amp_configs` must have `use_bf16` and neither"
                " `use_pure_fp16` nor `use_pure_bf16`: servers keep parameters in 32 bits, and"
                " know no scaled gradients"
            )
        if half and self.gradient_merge:
            raise NotImplementedError(
                "`gradient_merge` with scaled losses is not in this version: set `use_bf16` of"
                " `amp_configs`, or leave one of the two off"
            )
        if configs["use_optimizer_fp16"]:
            raise NotImplementedError(
                "`use_optimizer_fp16` is not in this version: updates are of 32 bits"
            )
        dtype = "float16" if half else "bfloat16"
        lists = AutoMixedPrecisionLists(
            configs["custom_white_list"],
            configs["custom_black_list"],
            configs["custom_black_varnames"],
            dtype,
        )
        return decorate(
            optimizer,
            lists,
            "O2" if pure else "O1",
            dtype,
            init_loss_scaling=configs["init_loss_scaling"],
            incr_every_n_steps=configs["incr_every_n_steps"],
            decr_every_n_nan_or_inf=configs["decr_every_n_nan_or_inf"],
            incr_ratio=configs["incr_ratio"],
            decr_ratio=configs["decr_ratio"],
            use_dynamic_loss_scaling=configs["use_dynamic_loss_scaling"],
        )

    def _refuse_what_is_not_there(self, but: tuple[str, ...] = ()) -> None:
        """Raises for a feature that is switched on and does not exist; those in `but` do."""
        for name in _NOT_THERE:
            if name not in but and getattr(self, name):
                raise NotImplementedError(
                    f"`{name}` of `DistributedStrategy` is not in this version: leave it off"
                )
        if self.adam_d2sum:
            warnings.warn(
                "`adam_d2sum` of `DistributedStrategy` has no effect: servers train parameters by the"
                " rule of the optimizer itself, Adam by Adam's; set it to False to silence this",
                stacklevel=4,
            )
        asynchronous = self.a_sync_configs
        if asynchronous["use_gpu_graph"]:
            raise NotImplementedError("`use_gpu_graph` of `a_sync_configs` is not in this version")
        guard = asynchronous["heter_worker_device_guard"]
        if guard.lower() not in DEVICES:
            raise ValueError(f"Heter Worker Not Support Device {guard}")
        if asynchronous["lr_decay_steps"] != self.DEFAULTS["a_sync_configs"]["lr_decay_steps"]:
            raise NotImplementedError(
                "`lr_decay_steps` is not in this version: schedules count the steps of trainers"
            )
        if any(degree > 1 for degree in self.hybrid_configs.values()):
            raise NotImplementedError(
                f"a model over several processes is not in this version: {self.hybrid_configs}"
            )


def _checked_configs(name: str, value: dict[str, Any]) -> dict[str, Any]:
    defaults = _CONFIGS[name]
    checked = {}
    for key, entry in value.items():
        if key not in defaults:
            raise ValueError(unknown_setting(name, key, defaults))
        wanted = type(defaults[key])
        if wanted is bool and entry in (0, 1):
            entry = bool(entry)
        if wanted is float and isinstance(entry, int) and not isinstance(entry, bool):
            entry = float(entry)
        if wanted is list and isinstance(entry, tuple):
            entry = list(entry)
        if not isinstance(entry, wanted):
            kind = type(entry).__name__
            raise TypeError(f"`{key}` of `{name}` must be of type {wanted.__name__}, not {kind}")
        checked[key] = entry
    return checked
