"""`ParallelExecutor` of Paddle 1.x: one program in several processes, whose gradients are averaged."""

from __future__ import annotations

from typing import Any

from .._missing import missing_names
from ..static.executor import BuildStrategy, CompiledProgram, ExecutionStrategy, Executor
from ..static.program import Program, default_main_program

__all__ = ["BuildStrategy", "ExecutionStrategy", "ParallelExecutor"]


class ParallelExecutor:
    """Runs a program as trainer `trainer_id` of `num_trainers`, with the parameters of trainer 0.

    The trainers are those that `DistributeTranspiler` in mode `nccl2`, or the environment, names.
    A process has one device.

    >>> import bireme.fluid as fluid
    >>> fluid.ParallelExecutor(use_cuda=False, main_program=fluid.Program()).device_count
    1
    """

    def __init__(
        self,
        use_cuda: bool,
        loss_name: str | None = None,
        main_program: Program | None = None,
        share_vars_from: Any = None,
        exec_strategy: ExecutionStrategy | None = None,
        build_strategy: BuildStrategy | None = None,
        num_trainers: int = 1,
        trainer_id: int = 0,
        scope: Any = None,
    ) -> None:
        from ..framework.place import CPUPlace, CUDAPlace

        if share_vars_from is not None and not isinstance(share_vars_from, ParallelExecutor):
            raise TypeError("`share_vars_from` must be a `ParallelExecutor`")
        strategy = BuildStrategy() if build_strategy is None else build_strategy
        strategy.num_trainers, strategy.trainer_id = num_trainers, trainer_id
        self._scope: Any = share_vars_from._scope if share_vars_from is not None else scope
        self._executor = Executor(CUDAPlace(0) if use_cuda else CPUPlace())
        program = default_main_program() if main_program is None else main_program
        self._program = CompiledProgram(program).with_data_parallel(
            loss_name, strategy, exec_strategy
        )

    def run(
        self,
        fetch_list: Any,
        feed: Any = None,
        feed_dict: Any = None,
        return_numpy: bool = True,
    ) -> list[Any]:
        """Runs the program once and returns what `fetch_list` names."""
        feed = feed_dict if feed is None else feed
        return self._executor.run(
            self._program, feed, fetch_list, scope=self._scope, return_numpy=return_numpy
        )

    @property
    def device_count(self) -> int:
        """How many devices this process has: one."""
        return 1

    def drop_local_exe_scopes(self) -> None:
        """Has nothing to do: temporary variables live in the plan of the program."""


__getattr__ = missing_names(__name__)
