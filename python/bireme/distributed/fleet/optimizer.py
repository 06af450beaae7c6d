"""The optimizer of a job: the user's own, and with parameter servers a split program after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .strategy import DistributedStrategy


class DistributedOptimizer:
    """Does what the optimizer inside does; `minimize` then splits the program over the servers.

    >>> job = paddle.distributed.fleet.init(is_collective=True)
    >>> layer = paddle.nn.Linear(1, 1)
    >>> adam = paddle.optimizer.Adam(0.1, parameters=layer.parameters())
    >>> paddle.distributed.fleet.distributed_optimizer(adam).get_lr()
    0.1
    """

    def __init__(
        self,
        optimizer: Any,
        strategy: DistributedStrategy,
        split: Callable[[Any, Any], None] | None = None,
        has_stages: bool = False,
    ) -> None:
        self.inner_opt = self.user_defined_optimizer = optimizer
        self.user_defined_strategy = strategy
        self._split = split
        # Whether heter workers run a part of the program.
        self._has_stages = has_stages

    def minimize(
        self,
        loss: Any,
        startup_program: Any = None,
        parameter_list: Sequence[Any] | None = None,
        no_grad_set: Any = None,
    ) -> Any:
        """As the optimizer inside; with parameter servers the programs become those of the role.

        Several losses are minimised by several optimizers in Paddle, and refused here.
        """
        if isinstance(loss, (list, tuple)) and len(loss) == 1:
            loss = loss[0]
        if isinstance(loss, (list, tuple)):
            raise NotImplementedError("one loss for each program is not in this version")
        self.user_defined_strategy._refuse_what_is_not_there(self._has_stages)
        made = self.inner_opt.minimize(loss, startup_program, parameter_list, no_grad_set)
        if self._split is not None:
            self._split(loss, startup_program)
        return made

    def step(self) -> None:
        """Updates the parameters, in eager mode."""
        self.user_defined_strategy._refuse_what_is_not_there()
        self.inner_opt.step()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner_opt, name)
