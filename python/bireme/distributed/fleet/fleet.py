"""`Fleet`: a distributed job as one process sees it. In this version it is the only one."""

from __future__ import annotations

from typing import Any

from ..environment import require_one_process
from .optimizer import DistributedOptimizer
from .role import PaddleCloudRoleMaker, Role
from .strategy import DistributedStrategy
from .util import UtilBase


class Fleet:
    """The object behind `paddle.distributed.fleet`; its functions are this one's methods.

    >>> fleet = paddle.distributed.fleet.Fleet()
    >>> fleet.init(is_collective=True).worker_num()
    1
    """

    def __init__(self) -> None:
        self._role: PaddleCloudRoleMaker | None = None
        self._strategy = DistributedStrategy()
        self.util = UtilBase()

    def init(
        self,
        role_maker: PaddleCloudRoleMaker | None = None,
        is_collective: bool = False,
        strategy: DistributedStrategy | None = None,
        log_level: int | str = "INFO",
    ) -> Fleet:
        """Says who this process is; several processes and servers raise in this version.

        `log_level` has no meaning here: nothing is logged.

        >>> paddle.distributed.fleet.init(is_collective=True).is_first_worker()
        True
        """
        if role_maker is not None and not isinstance(role_maker, PaddleCloudRoleMaker):
            raise TypeError(f"`role_maker` must be a role maker, not {type(role_maker).__name__}")
        role = role_maker or PaddleCloudRoleMaker(is_collective=is_collective)
        require_one_process()
        if role._role() == Role.SERVER:
            raise NotImplementedError("parameter servers are not in this version")
        if role._worker_num() > 1:
            count = role._worker_num()
            raise NotImplementedError(f"{count} workers are not in this version: there is one")
        self._strategy = _checked_strategy(strategy) or DistributedStrategy()
        self._role = role
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

    def is_first_worker(self) -> bool:
        """Whether this worker does what one must do alone, such as saving.

        >>> fleet = paddle.distributed.fleet
        >>> fleet = fleet.init(is_collective=True)
        >>> fleet.is_first_worker()
        True
        """
        return self.is_worker() and self.worker_index() == 0

    def is_worker(self) -> bool:
        """Whether this process trains.

        >>> fleet = paddle.distributed.fleet
        >>> fleet = fleet.init(is_collective=True)
        >>> fleet.is_worker()
        True
        """
        return self._known_role()._role() == Role.WORKER

    def is_server(self) -> bool:
        """Whether this process holds parameters.

        >>> fleet = paddle.distributed.fleet
        >>> fleet = fleet.init(is_collective=True)
        >>> fleet.is_server()
        False
        """
        return self._known_role()._role() == Role.SERVER

    def worker_endpoints(self, to_string: bool = False) -> Any:
        """The addresses of the workers, as a list or with commas between.

        >>> fleet = paddle.distributed.fleet
        >>> fleet = fleet.init(is_collective=True)
        >>> fleet.worker_endpoints(to_string=True)
        ''
        """
        endpoints = self._known_role()._worker_endpoints()
        return ",".join(endpoints) if to_string else endpoints

    def barrier_worker(self) -> None:
        """Waits for the other workers: there are none.

        >>> fleet = paddle.distributed.fleet
        >>> fleet = fleet.init(is_collective=True)
        >>> fleet.barrier_worker()
        """
        self._known_role()

    def distributed_optimizer(
        self, optimizer: Any, strategy: DistributedStrategy | None = None
    ) -> DistributedOptimizer:
        """The optimizer of the job, which in one process does what the given one does.

        >>> fleet = paddle.distributed.fleet
        >>> fleet = fleet.init(is_collective=True)
        >>> layer = paddle.nn.Linear(2, 1)
        >>> sgd = paddle.optimizer.SGD(0.1, parameters=layer.parameters())
        >>> sgd = fleet.distributed_optimizer(sgd)
        >>> layer(paddle.ones([1, 2])).backward()
        >>> sgd.step()
        """
        strategy = _checked_strategy(strategy)
        if strategy is not None:
            self._strategy = strategy
        return DistributedOptimizer(optimizer, self._strategy)

    def distributed_model(self, model: Any) -> Any:
        """The model of the job, which in one process is the given one.

        >>> fleet = paddle.distributed.fleet
        >>> fleet = fleet.init(is_collective=True)
        >>> model = paddle.nn.Linear(2, 1)
        >>> fleet.distributed_model(model) is model
        True
        """
        self._known_role()
        return model

    def save_persistables(
        self, executor: Any, dirname: str, main_program: Any = None, mode: int = 0
    ) -> None:
        """Saves parameters and optimizer state into a folder, see `fluid.io`."""
        from ...fluid.io import save_persistables

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

        `export_for_deployment` has no meaning here: the model is always cut for it.
        """
        from ...fluid.io import save_inference_model

        _refuse_mode(mode)
        save_inference_model(dirname, feeded_var_names, target_vars, executor, main_program)

    def _known_role(self) -> PaddleCloudRoleMaker:
        if self._role is None:
            raise RuntimeError("`fleet` does not know who this process is: call `fleet.init()`")
        return self._role


def _checked_strategy(strategy: Any) -> DistributedStrategy | None:
    if strategy is not None and not isinstance(strategy, DistributedStrategy):
        kind = type(strategy).__name__
        raise TypeError(f"`strategy` must be a `DistributedStrategy`, not {kind}")
    return strategy


def _refuse_mode(mode: int) -> None:
    if mode:
        raise NotImplementedError(f"`mode` {mode} is for parameter servers, not in this version")
