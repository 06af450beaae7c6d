"""`Fleet`: a distributed job as one process sees it.

Without a launcher's environment the job is this process alone: then training and saving work as
without `fleet`, and what is about servers only says so and does nothing.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from ... import _core
from ...static.program import default_startup_program
from ..communication.group import meet
from ..data_parallel import DataParallel
from ..parallel import get_world_size
from ..transpiler.config import DistributeTranspilerConfig
from .collective import FEATURES, CollectiveRuntime, settings_of
from .communicator import knobs
from .optimizer import DistributedOptimizer
from .role import Identity, PaddleCloudRoleMaker, Role, RoleMakerBase
from .runtime import Runtime
from .strategy import DistributedStrategy
from .util import UtilBase

_log = logging.getLogger("bireme.fleet")
_KNOBS = (
    "max_merge_var_num",
    "send_queue_size",
    "independent_recv_thread",
    "min_send_grad_num_before_recv",
    "thread_pool_size",
    "send_wait_times",
)


class Fleet:
    """The object behind `paddle.distributed.fleet`; its functions are this one's methods.

    >>> fleet = paddle.distributed.fleet.Fleet()
    >>> fleet.init(is_collective=True).worker_num()
    1
    """

    def __init__(self) -> None:
        self._role: RoleMakerBase | None = None
        self._strategy = DistributedStrategy()
        self._runtime: Runtime | CollectiveRuntime | None = None
        self._optimizer: DistributedOptimizer | None = None
        # What `distributed_model` has returned: gradients that are merged travel with the last.
        self._models: list[DataParallel] = []
        self.util = UtilBase(self)

    def init(
        self,
        role_maker: RoleMakerBase | None = None,
        is_collective: bool = False,
        strategy: DistributedStrategy | None = None,
        log_level: int | str = "INFO",
    ) -> Fleet:
        """Says who this process is; a collective job meets its other processes, in eager mode.

        `log_level` is that of the logger `bireme.fleet`.

        >>> paddle.distributed.fleet.init(is_collective=True).is_first_worker()
        True
        """
        if role_maker is not None and not isinstance(role_maker, RoleMakerBase):
            raise TypeError("role_maker must be an instance of RoleMakerBase")
        _log.setLevel(log_level)
        role = role_maker or PaddleCloudRoleMaker(is_collective=is_collective)
        identity = role._generate_role()
        _check_kind(identity)
        if identity.is_collective and identity.worker_num > 1 and _core.in_dynamic_mode():
            meet(identity.index, identity.worker_endpoints)
        self._strategy = _checked_strategy(strategy) or DistributedStrategy()
        self._role, self._runtime, self._optimizer = role, None, None
        self._models = []
        return self

    def worker_index(self) -> int:
        """The number of this worker, from 0.

        >>> fleet = paddle.distributed.fleet
        >>> fleet = fleet.init(is_collective=True)
        >>> fleet.worker_index()
        0
        """
        return self._known_role()._worker_index()

    def worker_num(self) -> int:
        """How many workers there are.

        >>> fleet = paddle.distributed.fleet
        >>> fleet = fleet.init(is_collective=True)
        >>> fleet.worker_num()
        1
        """
        return self._known_role()._worker_num()

    def node_num(self) -> int:
        """On how many hosts the workers are.

        >>> paddle.distributed.fleet.init(is_collective=True).node_num()
        1
        """
        return self._known_role()._node_num()

    def local_rank(self) -> int:
        """The number of this worker on its host, as `PADDLE_RANK_IN_NODE` says.

        >>> paddle.distributed.fleet.init(is_collective=True).local_rank()
        0
        """
        from ..environment import number

        return number("PADDLE_RANK_IN_NODE", 0)

    def local_device_ids(self) -> list[int]:
        """The devices of this worker, as `PADDLE_LOCAL_DEVICE_IDS` says.

        >>> paddle.distributed.fleet.init(is_collective=True).local_device_ids()
        []
        """
        from ..environment import endpoints

        return [int(device) for device in endpoints("PADDLE_LOCAL_DEVICE_IDS")]

    def world_device_ids(self) -> list[str]:
        """The devices of all workers, as `PADDLE_WORLD_DEVICE_IDS` says.

        >>> paddle.distributed.fleet.init(is_collective=True).world_device_ids()
        []
        """
        from ..environment import endpoints

        return endpoints("PADDLE_WORLD_DEVICE_IDS")

    def is_first_worker(self) -> bool:
        """Whether this worker does what one must do alone, such as saving.

        >>> fleet = paddle.distributed.fleet
        >>> fleet = fleet.init(is_collective=True)
        >>> fleet.is_first_worker()
        True
        """
        return self._known_role()._is_first_worker()

    def is_worker(self) -> bool:
        """Whether this process trains.

        >>> fleet = paddle.distributed.fleet
        >>> fleet = fleet.init(is_collective=True)
        >>> fleet.is_worker()
        True
        """
        return self._known_role()._is_worker()

    def is_heter_worker(self) -> bool:
        """Whether this process runs a part of the program for the workers.

        >>> paddle.distributed.fleet.init(is_collective=True).is_heter_worker()
        False
        """
        return self._known_role()._is_heter_worker()

    def is_server(self) -> bool:
        """Whether this process holds parameters.

        >>> fleet = paddle.distributed.fleet
        >>> fleet = fleet.init(is_collective=True)
        >>> fleet.is_server()
        False
        """
        return self._known_role()._is_server()

    def is_coordinator(self) -> bool:
        """Whether this process coordinates others: there is no such role in this version.

        >>> paddle.distributed.fleet.init(is_collective=True).is_coordinator()
        False
        """
        return self._known_role()._is_coordinator()

    def worker_endpoints(self, to_string: bool = False) -> Any:
        """The addresses of the workers, as a list or with commas between.

        >>> fleet = paddle.distributed.fleet
        >>> fleet = fleet.init(is_collective=True)
        >>> fleet.worker_endpoints(to_string=True)
        ''
        """
        endpoints = self._known_role()._get_trainer_endpoints()
        return ",".join(endpoints) if to_string else endpoints

    def server_num(self) -> int:
        """How many servers there are.

        >>> paddle.distributed.fleet.init(is_collective=True).server_num()
        0
        """
        return self._known_role()._server_num()

    def server_index(self) -> int:
        """The number of this server, from 0.

        >>> paddle.distributed.fleet.init(is_collective=True).server_index()
        0
        """
        return self._known_role()._server_index()

    def server_endpoints(self, to_string: bool = False) -> Any:
        """The addresses of the servers, as a list or with commas between.

        >>> paddle.distributed.fleet.init(is_collective=True).server_endpoints()
        []
        """
        endpoints = self._known_role()._get_pserver_endpoints()
        return ",".join(endpoints) if to_string else endpoints

    def barrier_worker(self) -> None:
        """Waits for the other workers.

        >>> fleet = paddle.distributed.fleet
        >>> fleet = fleet.init(is_collective=True)
        >>> fleet.barrier_worker()
        >>> fleet.worker_num()
        1
        """
        self._known_role()
        self.util.barrier("worker")

    def all_reduce(self, input: Any, mode: str = "sum") -> Any:
        """The sum, min or max over workers, see `util.all_reduce`.

        >>> paddle.distributed.fleet.init(is_collective=True).all_reduce([1, 2]).tolist()
        [1, 2]
        """
        return self.util.all_reduce(input, mode)

    def distributed_optimizer(
        self, optimizer: Any, strategy: DistributedStrategy | None = None
    ) -> DistributedOptimizer:
        """The optimizer of the job; its `minimize` splits the program where there are servers.

        In a collective job it lets the program reduce gradients over the processes.

        >>> fleet = paddle.distributed.fleet
        >>> fleet = fleet.init(is_collective=True)
        >>> layer = paddle.nn.Linear(2, 1)
        >>> sgd = paddle.optimizer.SGD(0.1, parameters=layer.parameters())
        >>> sgd = fleet.distributed_optimizer(sgd)
        >>> layer(paddle.ones([1, 2])).backward()
        >>> sgd.step()
        >>> round(layer.bias.item(), 4)
        -0.1
        """
        strategy = _checked_strategy(strategy)
        if strategy is not None:
            self._strategy = strategy
        split: Any = None
        features: tuple[str, ...] = ()
        identity = self._distributed_identity()
        if identity:
            # Stages of heter workers are a pipeline.
            split, features = self._split, ("pipeline",) if identity.heter_stages else ()
        elif self._role is not None and self._role._generate_role().is_collective:
            split, features = self._split_collective, FEATURES
        self._optimizer = DistributedOptimizer(
            optimizer, self._strategy, split, self._models, features
        )
        return self._optimizer

    def minimize(
        self,
        loss: Any,
        startup_program: Any = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
    ) -> Any:
        """`minimize` of the last optimizer that `distributed_optimizer` returned."""
        if self._optimizer is None:
            raise ValueError(
                "`fleet.minimize` has no optimizer: call `fleet.distributed_optimizer` before"
            )
        return self._optimizer.minimize(loss, startup_program, parameter_list, no_grad_set)

    def distributed_model(self, model: Any) -> Any:
        """The model of the job: a `DataParallel`, but in one process the given one.

        >>> fleet = paddle.distributed.fleet
        >>> fleet = fleet.init(is_collective=True)
        >>> model = paddle.nn.Linear(2, 1)
        >>> fleet.distributed_model(model) is model
        True
        """
        identity = self._known_role()._generate_role()
        if identity.server_endpoints:
            raise NotImplementedError(
                "eager models over parameter servers are not in this version: use static programs"
            )
        if identity.worker_num == 1:
            return model
        self._strategy._refuse_what_is_not_there(("gradient_merge",))
        if self._strategy.gradient_scale_configs["scale_strategy"] != "avg":
            raise NotImplementedError("eager gradients are averaged: `scale_strategy` must be avg")
        parallel = DataParallel(
            model,
            comm_buffer_size=self._strategy.fuse_grad_size_in_MB,
            last_comm_buffer_size=self._strategy.last_comm_group_size_MB,
            find_unused_parameters=self._strategy.find_unused_parameters,
        )
        self._models.append(parallel)
        if self._optimizer is not None:
            self._optimizer._schedule()
        return parallel

    @property
    def main_program(self) -> Any:
        """The program of this process's role, once `minimize` has split it."""
        return self._runtime_handle().main

    @property
    def startup_program(self) -> Any:
        """The startup program of this process's role, once `minimize` has split it."""
        return self._runtime_handle().startup

    def init_server(self, dirname: str | None = None, var_names: list[str] | None = None) -> None:
        """Fills the parameters of this server, from a folder of `save_persistables` if named.

        `var_names` chooses among its tables with 64-bit keys; the rest then starts afresh.
        """
        if self._is_distributed("init_server"):
            self._runtime_handle().init_server(dirname, var_names)

    def run_server(self) -> None:
        """Serves until all workers have called `stop_worker`."""
        if self._is_distributed("run_server"):
            self._runtime_handle().run_server()

    def init_worker(self, scopes: Any = None) -> None:
        """Connects this worker to the servers; `scopes` is the scope to train in, or a list of one.

        >>> fleet = paddle.distributed.fleet.init(is_collective=True)
        >>> fleet.init_worker()
        >>> fleet.is_worker()
        True
        """
        if not self._is_distributed("init_worker"):
            return
        if isinstance(scopes, (list, tuple)):
            if len(scopes) != 1:
                raise NotImplementedError("one scope for each program is not in this version")
            scopes = scopes[0]
        runtime = self._runtime_handle()
        runtime._require_member("init_worker")
        print(f"communicator config: {runtime._settings['communicator']}")
        runtime.init_worker(scopes)

    def init_heter_worker(self) -> None:
        """As `init_worker`, for a heter worker; it has its parameters from the startup program.

        >>> fleet = paddle.distributed.fleet.init(is_collective=True)
        >>> fleet.init_heter_worker()
        >>> fleet.is_heter_worker()
        False
        """
        if self._is_distributed("init_heter_worker"):
            self._runtime_handle()._require(Role.HETER_WORKER, "init_heter_worker")
            self.init_worker()

    def run_heter_worker(self, dataset: Any = None) -> None:
        """Runs this heter worker's stage until all workers have called `stop_worker`.

        What the stage computes with comes from the workers, so `dataset` must be None, as in Paddle.

        >>> fleet = paddle.distributed.fleet.init(is_collective=True)
        >>> fleet.run_heter_worker()
        >>> fleet.is_heter_worker()
        False
        """
        if dataset is not None:
            raise RuntimeError("dataset should be None for heter pipeline mode")
        if self._is_distributed("run_heter_worker"):
            self._runtime_handle().run_heter_worker()

    def stop_worker(self) -> None:
        """Tells the servers that this worker is done; they end after the last one."""
        if self._is_distributed("stop_worker"):
            self._runtime_handle().stop_worker()

    def save_persistables(
        self,
        executor: Any,
        dirname: str,
        main_program: Any = None,
        mode: int = 0,
        *,
        format: str = "native",
    ) -> None:
        """Saves parameters and optimizer state into a folder.

        With servers each of them writes its part when worker 0 calls this; the others' calls
        return at once. `mode` 0 saves all, 1 what changed since the last save, as in Paddle.
        `format` is `native`, or `paddle_text` for Paddle's layout. Without servers, see `fluid.io`.
        """
        from ...fluid.io import save_persistables

        if self._distributed_identity():
            return self._runtime_handle().save(dirname, mode, format=format)
        _refuse_mode(mode)
        save_persistables(executor, dirname, main_program)

    def save_inference_model(
        self,
        executor: Any,
        dirname: str,
        feeded_var_names: list[str],
        target_vars: list[Any],
        main_program: Any = None,
        export_for_deployment: bool = True,
        mode: int = 0,
    ) -> None:
        """Saves a model for prediction into a folder, see `fluid.io`.

        With servers worker 0 fetches their parameters and tables for it; the others' calls return
        at once. The model is always cut for prediction: `export_for_deployment=False` warns.
        """
        from ...fluid.io import check_export, save_inference_model
        from ...static.executor import fetch_names

        check_export(export_for_deployment)
        _refuse_mode(mode)
        if self._distributed_identity():
            names, targets = list(feeded_var_names), fetch_names(target_vars)
            runtime = self._runtime_handle()
            return runtime.save_inference(dirname, names, targets, main_program)
        save_inference_model(dirname, feeded_var_names, target_vars, executor, main_program)

    def save(
        self,
        dirname: str,
        feed: list[Any] | None = None,
        fetch: list[Any] | None = None,
        **configs: Any,
    ) -> None:
        """Saves a model for prediction where `feed` and `fetch` name what goes in and out, else
        the parameters."""
        from ...static.executor import fetch_names

        unknown = set(configs) - {"mode", "format"}
        if unknown:
            raise TypeError(f"`fleet.save` does not take {', '.join(sorted(unknown))}")
        if not feed and not fetch:
            return self.save_persistables(None, dirname, **configs)
        if not feed or not fetch or configs.get("format"):
            raise ValueError(
                "a model for prediction needs both `feed` and `fetch`, and no `format`"
            )
        return self.save_inference_model(None, dirname, fetch_names(feed), fetch, **configs)

    def save_one_table(
        self, table_id: int, path: str, mode: int = 0, *, format: str = "native"
    ) -> None:
        """Saves one table, by its number in `table_stat`; see `save_persistables`."""
        if self._is_distributed("save_one_table"):
            self._runtime_handle().save(path, mode, table_id, format)

    def save_dense_params(
        self,
        executor: Any,
        dirname: str,
        scope: Any = None,
        program: Any = None,
        var_names: list[str] | None = None,
    ) -> None:
        """Saves the dense parameters that the servers hold into a folder, a file each; worker 0
        does. `executor`, `scope` and `program` have no meaning here: the servers have the values.
        """
        if not self._is_distributed("save_dense_params"):
            return
        runtime = self._runtime_handle()
        if runtime.identity.index:
            return
        values = runtime.dense()
        for name in var_names or sorted(values):
            if name not in values:
                known = ", ".join(sorted(values))
                raise ValueError(f"the servers have no dense parameter `{name}`, but {known}")
        os.makedirs(dirname, exist_ok=True)
        for name in var_names or values:
            _core.save_tensor(os.path.join(dirname, name), values[name])

    def last_checkpoint(self) -> str | None:
        """The folder of the last complete `save_persistables` of this job, None where there is none.

        A job that `fleetrun --max_restart` has started again goes on from there: its servers load
        it in `init_server()`, and its workers learn from it which steps are done.

        >>> paddle.distributed.fleet.init(is_collective=True).last_checkpoint() is None
        True
        """
        self._known_role()
        return _core.last_checkpoint()

    def load_model(self, path: str, mode: int = 0) -> None:
        """Lets the servers load what `save_persistables` wrote; all workers must call it."""
        if self._is_distributed("load_model"):
            self._runtime_handle().load(path, mode)

    def load_one_table(self, table_id: int, path: str, mode: int = 0) -> None:
        """Lets the servers load one table; all workers must call it."""
        if self._is_distributed("load_one_table"):
            self._runtime_handle().load(path, mode, table_id)

    def load_inference_model(self, path: str, mode: int = 0) -> None:
        """Not in this version: a model for prediction has no state to go on training with."""
        if self._is_distributed("load_inference_model"):
            raise NotImplementedError(
                "servers load what `save_persistables` wrote, by `load_model`, in this version"
            )

    def shrink(self, threshold: float | None = None) -> None:
        """Lets tables forget rows as their accessors say; `threshold` must be left out.

        >>> fleet = paddle.distributed.fleet.init(is_collective=True)
        >>> fleet.shrink()
        >>> fleet.table_stat()
        []
        """
        if threshold is not None:
            raise ValueError(
                "`threshold` is not used: set `delete_threshold` of the table's accessor instead"
            )
        if self._is_distributed("shrink"):
            self._runtime_handle().shrink()

    def table_stat(self) -> list[dict[str, Any]]:
        """The tables on the servers: `id`, `name`, `rows` and `bytes` of each.

        >>> paddle.distributed.fleet.init(is_collective=True).table_stat()
        []
        """
        return self._runtime_handle().stat() if self._is_distributed("table_stat") else []

    def _split(self, loss: Any, startup_program: Any) -> None:
        """Makes the programs of this process's role out of those that `minimize` completed."""
        config, settings = _settings_of(self._strategy)
        identity = self._distributed_identity()
        assert identity is not None, "`distributed_optimizer` splits for these jobs alone"
        runtime = Runtime(identity, config, settings)
        startup = startup_program or default_startup_program()
        runtime.split(loss.block.program, startup, self._strategy._tables)
        # Where Paddle's scripts look for it, and may change it.
        loss.block.program._fleet_opt = {
            **self._strategy.trainer_desc_configs,
            "trainer_id": runtime.identity.index,
        }
        self._runtime = runtime

    def _split_collective(self, loss: Any, startup_program: Any) -> None:
        """Lets the programs that `minimize` completed reduce over the job's processes."""
        identity = self._known_role()._generate_role()
        runtime = CollectiveRuntime(identity, settings_of(self._strategy, identity.worker_num))
        runtime.split(loss.block.program, startup_program or default_startup_program())
        loss.block.program._fleet_opt = {
            **self._strategy.trainer_desc_configs,
            "trainer_id": identity.index,
        }
        self._runtime = runtime

    def _runtime_handle(self) -> Any:
        self._known_role()
        if self._runtime is None:
            raise ValueError(
                "Fleet can not find suitable runtime handler: call `minimize` of the optimizer"
                " that `fleet.distributed_optimizer` returns before"
            )
        return self._runtime

    def _distributed_identity(self) -> Identity | None:
        """Who this process is in a job with servers; None where there are none."""
        identity = self._role._generate_role() if self._role is not None else None
        return identity if identity is not None and identity.server_endpoints else None

    def _is_distributed(self, method: str) -> bool:
        self._known_role()
        if self._distributed_identity():
            return True
        _log.warning("%s() function doesn't work when use non_distributed fleet.", method)
        return False

    def _known_role(self) -> RoleMakerBase:
        if self._role is None:
            raise RuntimeError("`fleet` does not know who this process is: call `fleet.init()`")
        return self._role


def _check_kind(identity: Identity) -> None:
    """That workers without servers are meant to be a collective job."""
    count = max(identity.worker_num, get_world_size())
    if count > 1 and not identity.server_endpoints and not identity.is_collective:
        raise ValueError(
            f"there are {count} workers and no servers: call `fleet.init(is_collective=True)`, or"
            " name the servers (`PADDLE_PSERVERS_IP_PORT_LIST`)"
        )


def _checked_strategy(strategy: Any) -> DistributedStrategy | None:
    if strategy is not None and not isinstance(strategy, DistributedStrategy):
        kind = type(strategy).__name__
        raise TypeError(f"`strategy` must be a `DistributedStrategy`, not {kind}")
    return strategy


def _settings_of(strategy: DistributedStrategy) -> tuple[DistributeTranspilerConfig, dict]:
    """What the transpiler and the runtime are told of a strategy."""
    mode, configs = strategy._mode(), strategy.a_sync_configs
    config = DistributeTranspilerConfig()
    config.sync_mode = mode == "sync"
    if mode == "geo":
        config.geo_sgd_need_push_nums = configs["k_steps"]
    if configs["dc_asgd"]:
        config.enable_dc_asgd, config.dc_asgd_lambda = True, configs["dc_asgd"]
    config.staleness = configs["staleness"]
    defaults = strategy.DEFAULTS["a_sync_configs"]
    # The proto's defaults are not what counts: only what a script has changed does.
    given = {name: configs[name] for name in _KNOBS if configs[name] != defaults[name]}
    settings = {
        "mode": mode,
        "k_steps": max(configs["k_steps"], 0),
        "staleness": configs["staleness"],
        "communicator": knobs(mode, given, configs["k_steps"]),
        "launch_barrier": configs["launch_barrier"],
        "gpubox": bool(configs["use_ps_gpu"]),
        "micro_batches": strategy.pipeline_configs["accumulate_steps"],
    }
    return config, settings


def _refuse_mode(mode: int) -> None:
    if mode:
        raise NotImplementedError(
            f"`mode` {mode} is for tables: use `save_persistables` of a job with servers"
        )
