"""The optimizer of a job: in one process, the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .strategy import DistributedStrategy


class DistributedOptimizer:
    """Does what the optimizer inside does, and keeps the strategy beside it.

    >>> job = paddle.distributed.fleet.init(is_collective=True)
    >>> layer = paddle.nn.Linear(1, 1)
    >>> adam = paddle.optimizer.Adam(0.1, parameters=layer.parameters())
    >>> paddle.distributed.fleet.distributed_optimizer(adam).get_lr()
    0.1
    """

    def __init__(self, optimizer: Any, strategy: DistributedStrategy) -> None:
        self.inner_opt = self.user_defined_optimizer = optimizer
        self.user_defined_strategy = strategy

    def minimize(
        self,
        loss: Any,
        startup_program: Any = None,
        parameter_list: Sequence[Any] | None = None,
        no_grad_set: Any = None,
    ) -> Any:
        """As the optimizer inside; several losses are minimised by several optimizers in Paddle."""
        if isinstance(loss, (list, tuple)):
            raise NotImplementedError("one loss for each program is not in this version")
        return self.inner_opt.minimize(loss, startup_program, parameter_list, no_grad_set)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner_opt, name)
