"""`fleet` of Paddle 1.x without servers: processes that average gradients, or parameters."""

from __future__ import annotations

from typing import Any, ClassVar

from ....._missing import missing_names
from .....distributed.fleet.collective import CollectiveRuntime
from .....static.executor import BuildStrategy, ExecutionStrategy, _check_reduction
from .....static.program import default_startup_program
from ..base.fleet_base import DistributedOptimizer, Fleet
from ..base.mode import Mode
from ..base.role_maker import PaddleCloudRoleMaker

__all__ = ["Collective", "CollectiveOptimizer", "DistributedStrategy", "fleet"]


# What would change what a job computes, and is not there.
_NOT_THERE = ("use_dist_fc", "forward_recompute", "use_amp")


class DistributedStrategy(BuildStrategy):
    """Settings of a job without servers, beside those of `static.BuildStrategy`.

    `use_local_sgd`, or `collective_mode` "local_sgd", averages parameters after every step instead
    of gradients. `mode` and the settings of NCCL change no result.

    >>> from bireme.fluid.incubate.fleet.collective import DistributedStrategy
    >>> DistributedStrategy().exec_strategy.num_threads
    0
    """

    DEFAULTS: ClassVar[dict[str, Any]] = {
        **BuildStrategy.DEFAULTS,
        **dict.fromkeys(_NOT_THERE, False),
        "amp_loss_scaling": 2.0**15,
        "collective_mode": "grad_allreduce",
        "hierarchical_allreduce_inter_nranks": 8,
        "mode": "nccl2",
        "nccl_comm_num": 1,
        "recompute_checkpoints": [],
        "use_hierarchical_allreduce": False,
        "use_local_sgd": False,
    }

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "exec_strategy", ExecutionStrategy())

    def _checked(self, name: str, value: Any) -> Any:
        value = super()._checked(name, value)
        choices = {
            "mode": ("nccl2", "collective"),
            "collective_mode": ("grad_allreduce", "local_sgd"),
        }.get(name)
        if choices and value not in choices:
            raise ValueError(f"`{name}` must be {' or '.join(choices)}, not {value!r}")
        return value

    def _settings(self) -> dict[str, Any]:
        """What the engine is told."""
        for name in _NOT_THERE:
            if getattr(self, name):
                raise NotImplementedError(f"`{name}` is not in this version: leave it off")
        _check_reduction(self)
        settings = {"fuse": self.fuse_all_reduce_ops, "average": self.gradient_scale_strategy == 0}
        if self.use_local_sgd or self.collective_mode == "local_sgd":
            settings["local_sgd"] = (1, 1)
        return settings


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

    def distributed_optimizer(self, optimizer: Any, strategy: Any = None) -> CollectiveOptimizer:
        """The optimizer of the job: its `minimize` lets the program average over the processes."""
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
        from ....io import check_export, save_inference_model

        check_export(export_for_deployment)
        program = main_program or self.main_program
        save_inference_model(dirname, feeded_var_names, target_vars, executor, program)


class CollectiveOptimizer(DistributedOptimizer):
    """The user's optimizer, whose programs become those of a process of the job."""

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
        """As the optimizer inside; then the program averages over the processes of the job."""
        settings = (self._strategy or DistributedStrategy())._settings()
        made = self._optimizer.minimize(loss, startup_program, parameter_list, no_grad_set)
        main, startup = loss.block.program, startup_program or default_startup_program()
        identity = self._job._known_role()._generate_role()
        if identity.worker_num > 1:
            CollectiveRuntime(identity, settings).split(main, startup)
        self._job.main_program, self._job.startup_program = main, startup
        return made


fleet = Collective()

__getattr__ = missing_names(__name__)
