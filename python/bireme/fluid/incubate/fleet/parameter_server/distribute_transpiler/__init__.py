"""`fleet` of Paddle 1.x with parameter servers, by the transpiler.

from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet

fleet.init(role)
...                                                # build the network
fleet.distributed_optimizer(optimizer, config).minimize(loss)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()                             # returns when the workers are done
else:
    fleet.init_worker()
    exe.run(fleet.startup_program)
    ...                                            # exe.run(fleet.main_program, ...)
    fleet.stop_worker()
"""

from __future__ import annotations

from typing import Any

from ......_missing import missing_names
from ......_names import set_public_names
from ......distributed.fleet.role import Role
from ......distributed.fleet.runtime import Runtime
from ......distributed.transpiler import DistributeTranspilerConfig as DistributeTranspilerConfig
from ......optimizer import Optimizer
from ......static.executor import fetch_names
from ......static.program import default_startup_program
from ...base.fleet_base import DistributedOptimizer, Fleet
from ...base.mode import Mode
from ...base.role_maker import MPISymetricRoleMaker
from .distributed_strategy import *
from .distributed_strategy import strategy_of


class FleetTranspiler(Fleet):
    """A job with parameter servers as one process sees it; use the object `fleet`."""

    def __init__(self, mode: Mode = Mode.TRANSPILER) -> None:
        super().__init__(mode)
        self._optimizer: Any = None

    @property
    def main_program(self) -> Any:
        """The program of this process's role; None before `minimize`."""
        return self._runtime.main if self._runtime else None

    @property
    def startup_program(self) -> Any:
        """The startup program of this process's role; None before `minimize`."""
        return self._runtime.startup if self._runtime else None

    def distributed_optimizer(self, optimizer: Any, strategy: Any = None) -> TranspilerOptimizer:
        """The optimizer of the job, whose `minimize` splits the program over the servers.

        `strategy` is one of `StrategyFactory`, or a `DistributeTranspilerConfig`; without one
        training is synchronous.
        """
        if not isinstance(optimizer, Optimizer):
            raise ValueError("optimizer must be an instance of Optimizer")  # noqa: TRY004
        if self._role_maker is None:
            raise ValueError("fleet.init(role) to initialize before optimizer.minimize(loss)")
        self._optimizer = TranspilerOptimizer(self, optimizer, self._strategy_of(strategy))
        return self._optimizer

    def init_worker(self) -> None:
        """Shows the knobs of the communicator and connects this worker to the servers."""
        runtime = self._runtime_handle()
        runtime._require(Role.WORKER, "init_worker")
        print(self._optimizer._strategy.get_trainer_runtime_config())
        runtime.init_worker()

    def init_server(self, model_dir: str | None = None) -> None:
        """Fills the parameters of this server, from a folder of `save_persistables` if named."""
        self._runtime_handle().init_server(model_dir, None)

    def run_server(self) -> None:
        """Serves until all workers have called `stop_worker`."""
        self._runtime_handle().run_server()

    def stop_worker(self) -> None:
        """Tells the servers that this worker is done; they end after the last one."""
        self._runtime_handle().stop_worker()
        if isinstance(self._role_maker, MPISymetricRoleMaker):
            self._role_maker._finalize()

    def save_persistables(self, executor: Any, dirname: str, main_program: Any = None) -> None:
        """Lets the servers save parameters and optimizer state; worker 0's call does.

        `executor` and `main_program` have no meaning here: the servers have the values.
        """
        self._runtime_handle().save(dirname, 0)

    def save_inference_model(
        self,
        executor: Any,
        dirname: str,
        feeded_var_names: list[str],
        target_vars: list[Any],
        main_program: Any = None,
        export_for_deployment: bool = True,
    ) -> None:
        """Saves a model for prediction with the servers' parameters; worker 0's call does.

        `executor` has no meaning here. The program is always cut for prediction:
        `export_for_deployment=False` warns.
        """
        from .....io import check_export

        check_export(export_for_deployment)
        names, targets = list(feeded_var_names), fetch_names(target_vars)
        self._runtime_handle().save_inference(dirname, names, targets, main_program)

    def _strategy_of(self, strategy: Any) -> DistributedStrategy:
        if strategy is None:
            return SyncStrategy()
        if isinstance(strategy, DistributedStrategy):
            return strategy
        if isinstance(strategy, DistributeTranspilerConfig):
            return strategy_of(strategy)
        if isinstance(strategy, dict):
            raise TypeError("Dict strategy can only be used at PSLIB Mode")
        raise TypeError(
            "strategy must be an instance of DistributeTranspilerConfig, DistributedStrategy"
        )

    def _split(
        self, loss: Any, startup_program: Any, strategy: DistributedStrategy, tables: Any
    ) -> None:
        identity = self._distributed_identity()
        if identity is None:
            raise ValueError("this `fleet` needs servers: hand a role maker with servers to `init`")
        runtime = Runtime(identity, strategy.get_program_config(), strategy._settings())
        runtime.split(loss.block.program, startup_program or default_startup_program(), tables)
        self._runtime = runtime


class TranspilerOptimizer(DistributedOptimizer):
    """The user's optimizer, after which the program is split over the servers."""

    def __init__(
        self,
        job: FleetTranspiler,
        optimizer: Any,
        strategy: DistributedStrategy,
        tables: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(optimizer, strategy)
        self._job = job
        self._tables = tables or {}

    def minimize(
        self,
        losses: Any,
        scopes: Any = None,
        startup_programs: Any = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
    ) -> Any:
        """Minimises a loss, then makes the programs of this process's role; one loss at a time."""
        loss, startup = _only(losses, "losses"), _only(startup_programs, "startup_programs")
        if scopes is not None:
            raise NotImplementedError("`scopes` are not in this version: use the global scope")
        made = self._optimizer.minimize(loss, startup, parameter_list, no_grad_set)
        self._job._split(loss, startup, self._strategy, self._tables)
        return made


def _only(values: Any, name: str) -> Any:
    if not isinstance(values, (list, tuple)):
        return values
    if len(values) != 1:
        raise NotImplementedError(f"`{name}` has {len(values)} entries: one is in this version")
    return values[0]


fleet = FleetTranspiler()

set_public_names(__name__, also="DistributeTranspilerConfig fleet", but="strategy_of")
__getattr__ = missing_names(__name__)
