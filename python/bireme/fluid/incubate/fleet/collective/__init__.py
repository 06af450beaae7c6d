"""`fleet` of Paddle 1.x without servers; more than one process raises in this version."""

from __future__ import annotations

from typing import Any

from ....._missing import missing_names
from .....distributed.parallel import require_one_process
from .....static.executor import BuildStrategy, ExecutionStrategy
from .....static.program import default_startup_program
from ..base.fleet_base import DistributedOptimizer, Fleet
from ..base.mode import Mode
from ..base.role_maker import PaddleCloudRoleMaker

__all__ = ["Collective", "CollectiveOptimizer", "DistributedStrategy", "fleet"]


class DistributedStrategy(BuildStrategy):
    """Settings of a job without servers, see `static.BuildStrategy`.

    >>> from bireme.fluid.incubate.fleet.collective import DistributedStrategy
    >>> DistributedStrategy().exec_strategy.num_threads
    0
    """

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "exec_strategy", ExecutionStrategy())


class Collective(Fleet):
    """A job without servers as one process sees it; use the object `fleet`."""

    def __init__(self) -> None:
        super().__init__(Mode.COLLECTIVE)
        self.main_program: Any = None
        self.startup_program: Any = None

    def init(self, role_maker: Any = None) -> None:
        """Says who this process is; by default the environment does."""
        role_maker = PaddleCloudRoleMaker(is_collective=True) if role_maker is None else role_maker
        super().init(role_maker)
        require_one_process()
        if self.worker_num() > 1:
            raise NotImplementedError(
                f"collective training over several processes is not in this version, but there are"
                f" {self.worker_num()} workers"
            )

    def distributed_optimizer(self, optimizer: Any, strategy: Any = None) -> CollectiveOptimizer:
        """The optimizer of the job, which in one process does what the given one does."""
        return CollectiveOptimizer(self, optimizer, strategy)

    def init_worker(self) -> None:
        """Has nothing to do: workers find each other by themselves."""

    def stop_worker(self) -> None:
        """Has nothing to do: there are no servers."""

    def init_server(self, model_dir: str | None = None) -> None:
        """Raises: there are no servers."""
        raise NotImplementedError("You should not call 'init_server' for collective mode.")

    def run_server(self) -> None:
        """Raises: there are no servers."""
        raise NotImplementedError("You should not call 'run_server' for collective mode.")

    def save_persistables(
        self, executor: Any, dirname: str, main_program: Any = None, filename: str | None = None
    ) -> None:
        """Saves parameters and optimizer state into a folder, see `fluid.io`."""
        from ....io import save_persistables

        save_persistables(executor, dirname, main_program or self.main_program, filename)

    def save_inference_model(
        self,
        executor: Any,
        dirname: str,
        feeded_var_names: list[str],
        target_vars: list[Any],
        main_program: Any = None,
        export_for_deployment: bool = True,
    ) -> None:
        """Saves a model for prediction into a folder, see `fluid.io`."""
        from ....io import save_inference_model

        program = main_program or self.main_program
        save_inference_model(dirname, feeded_var_names, target_vars, executor, program)


class CollectiveOptimizer(DistributedOptimizer):
    """The user's optimizer, in a job of one process."""

    def __init__(self, job: Collective, optimizer: Any, strategy: Any = None) -> None:
        super().__init__(optimizer, strategy)
        if strategy is not None and not isinstance(strategy, DistributedStrategy):
            raise TypeError("strategy must be a `DistributedStrategy` of this module")
        self._job = job

    def minimize(
        self,
        loss: Any,
        startup_program: Any = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
    ) -> Any:
        """As the optimizer inside."""
        made = self._optimizer.minimize(loss, startup_program, parameter_list, no_grad_set)
        self._job.main_program = loss.block.program
        self._job.startup_program = startup_program or default_startup_program()
        return made


fleet = Collective()

__getattr__ = missing_names(__name__)
