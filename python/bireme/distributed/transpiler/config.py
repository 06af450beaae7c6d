"""The settings of `DistributeTranspiler`."""

from __future__ import annotations

from typing import Any, ClassVar

from ...static.settings import Settings
from .. import environment
from .ps_dispatcher import HashName, PSDispatcher, RoundRobin

MODES = ("pserver", "nccl2", "collective")
COLLECTIVE_MODES = ("grad_allreduce", "local_sgd", "single_process_multi_thread")


class DistributeTranspilerConfig(Settings):
    """How a program is split over trainers and servers; unknown names and wrong types raise.

    - `slice_var_up`: whether a parameter is cut into blocks for several servers, of at least
      `min_block_size` elements each;
    - `split_method`: which server gets which block, `RoundRobin` or `HashName`;
    - `sync_mode`, `half_async`, `runtime_split_send_recv`, `geo_sgd_mode` with
      `geo_sgd_need_push_nums`: when trainers and servers exchange;
    - `enable_dc_asgd`, in asynchronous training: gradients are corrected for what the servers
      changed since the trainer fetched, by `dc_asgd_lambda` times Paddle's correction;
    - `hybrid`: tables are asynchronous and at most `staleness` steps old, the rest is synchronous;
    - `mode`: `pserver`, `nccl2` or `collective`, the last with `collective_mode`;
    - `print_log`: prints what the transpiler did; `wait_port`: see `get_trainer_program`.

    `dc_asgd_lambda`, `hybrid` and `staleness` are Bireme's own.

    >>> config = paddle.fluid.DistributeTranspilerConfig()
    >>> config.slice_var_up, config.min_block_size
    (True, 8192)
    >>> config.slice_vars_up = False
    Traceback (most recent call last):
    ...
    AttributeError: `DistributeTranspilerConfig` has no setting `slice_vars_up`: did you mean `slice_var_up`?
    """

    DEFAULTS: ClassVar[dict[str, Any]] = {
        "slice_var_up": True,
        "split_method": None,
        "min_block_size": 8192,
        "enable_dc_asgd": False,
        "dc_asgd_lambda": 1.0,
        "mode": "pserver",
        "print_log": False,
        "wait_port": True,
        "runtime_split_send_recv": False,
        "sync_mode": True,
        "half_async": False,
        "completely_not_async": False,
        "geo_sgd_mode": False,
        "geo_sgd_need_push_nums": 100,
        "hybrid": False,
        "staleness": 4,
        "nccl_comm_num": 1,
        "use_hierarchical_allreduce": False,
        "hierarchical_allreduce_inter_nranks": 0,
        "collective_mode": None,
    }

    def _checked(self, name: str, value: Any) -> Any:
        if name in ("sync_mode", "runtime_split_send_recv"):
            self._check_exchange(name, value)
        if name == "split_method":
            return _dispatcher(value)
        value = super()._checked(name, value)
        if name == "mode" and value not in MODES:
            raise ValueError(f"`mode` must be {', '.join(MODES)}, not {value!r}")
        if name == "collective_mode" and value not in (None, *COLLECTIVE_MODES):
            raise ValueError(f"invalid collective_mode: {value}")
        if name == "staleness" and value < 0:
            raise ValueError(f"`staleness` is a number of steps from 0 on, not {value}")
        if name == "geo_sgd_need_push_nums" and value < 1:
            raise ValueError(f"`{name}` is a number of batches from 1 on, not {value}")
        return value

    def _check_exchange(self, name: str, value: Any) -> None:
        other = {"sync_mode": "runtime_split_send_recv", "runtime_split_send_recv": "sync_mode"}
        if value is None:
            raise ValueError(f"{name} can't be None")
        if value and getattr(self, other[name]):
            raise ValueError(
                f"if you want to set {name} to be true, make ensure config.{other[name]} is false"
                " at first"
            )

    def _settled(self) -> dict[str, Any]:
        """The settings as the transpiler takes them, checked against each other."""
        if self.min_block_size < 8192:
            raise ValueError(
                f"`min_block_size` must be at least 8192, as in Paddle, but is"
                f" {self.min_block_size}; `slice_var_up = False` leaves variables whole"
            )
        if self.hybrid and self.geo_sgd_mode:
            raise ValueError("`hybrid` and `geo_sgd_mode` exclude each other: choose one")
        settings = {name: getattr(self, name) for name in self.DEFAULTS}
        settings["split_method"] = (self.split_method or RoundRobin).__name__
        return settings


class ServerRuntimeConfig:
    """How many connections a server works on at once, as `FLAGS_rpc_*_thread_num` say.

    >>> paddle.distributed.transpiler.ServerRuntimeConfig()._rpc_get_thread_num
    12
    """

    def __init__(self) -> None:
        self._rpc_send_thread_num = environment.number("FLAGS_rpc_send_thread_num", 12)
        self._rpc_get_thread_num = environment.number("FLAGS_rpc_get_thread_num", 12)
        self._rpc_prefetch_thread_num = environment.number("FLAGS_rpc_prefetch_thread_num", 12)

    def _settled(self) -> dict[str, int]:
        """The numbers as the transpiler takes them."""
        numbers = {name.lstrip("_"): value for name, value in vars(self).items()}
        for name, value in numbers.items():
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"`{name}` must be a number from 1 on, not {value!r}")
        return numbers


def _dispatcher(method: Any) -> type[PSDispatcher] | None:
    known = {kind.__name__: kind for kind in (RoundRobin, HashName)}
    method = known.get(method, method) if isinstance(method, str) else method
    if method is not None and method not in known.values():
        if isinstance(method, type) and issubclass(method, PSDispatcher):
            raise NotImplementedError(
                f"`{method.__name__}` is a dispatcher of your own: servers are chosen by"
                " `RoundRobin` or `HashName` in this version"
            )
        raise TypeError(f"`split_method` must be `RoundRobin` or `HashName`, not {method!r}")
    return method
