"""The optimizer of a job: the user's own, and with parameter servers a split program after it.

In eager mode it steps with the gradients that the backward pass has averaged over the processes, so
clipping sees what one process with all the data would see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import _core
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
        models: Sequence[Any] = (),
        features: tuple[str, ...] = (),
    ) -> None:
        self.inner_opt = self.user_defined_optimizer = optimizer
        self.user_defined_strategy = strategy
        self._split = split
        self._models = models
        # What of the strategy the split programs have.
        self._features = features
        # Calls of `step`, of which with merged gradients every k-th is one.
        self._calls = 0
        self._schedule()

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
        if isinstance(loss, _core.Tensor):
            self.step()
            return [], []
        self.user_defined_strategy._refuse_what_is_not_there(self._features)
        optimizer = self.user_defined_strategy._amp_optimizer(
            self.inner_opt, self._split is not None and "amp" not in self._features
        )
        made = optimizer.minimize(loss, startup_program, parameter_list, no_grad_set)
        if self._split is not None:
            self._split(loss, startup_program)
        program = loss.block.program
        if not hasattr(program, "_fleet_opt"):
            # Scripts of Paddle look for it in jobs of one process, too.
            program._fleet_opt = {
                **self.user_defined_strategy.trainer_desc_configs,
                "trainer_id": 0,
            }
        return made

    def step(self) -> None:
        """Updates the parameters, in eager mode; with `gradient_merge` in every k-th call."""
        self.user_defined_strategy._refuse_what_is_not_there(("gradient_merge",))
        if self.user_defined_strategy.amp:
            raise NotImplementedError(
                "`amp` of `DistributedStrategy` is for static programs: in eager mode use"
                " `paddle.amp.auto_cast` and `GradScaler`"
            )
        self._calls += 1
        steps = self._merged_steps()
        if self._calls % steps == 0:
            if steps > 1 and self.user_defined_strategy.gradient_merge_configs["avg"]:
                _core.divide_gradients(self.inner_opt._parameter_list or [], steps)
            self.inner_opt.step()
        self._schedule()

    def clear_grad(self, set_to_zero: bool = True) -> None:
        """Forgets the gradients, unless they wait for others to be merged with."""
        if self._calls % self._merged_steps() == 0:
            self.inner_opt.clear_grad(set_to_zero)

    clear_gradients = clear_grad

    def _merged_steps(self) -> int:
        strategy = self.user_defined_strategy
        return strategy.gradient_merge_configs["k_steps"] if strategy.gradient_merge else 1

    def _schedule(self) -> None:
        """Lets gradients travel in the last of the backward passes that are merged alone."""
        steps = self._merged_steps()
        for model in self._models:
            model.grad_need_sync = (self._calls + 1) % steps == 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner_opt, name)
