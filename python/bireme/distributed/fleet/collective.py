"""A process's programs in a collective job: gradients, or parameters, are reduced by ops in them.

The executor joins the other processes by itself when it first runs one of the programs. What
`settings_of` hands to the engine: `fuse`, `bucket_mb`, `average`, `gradient_merge` (steps, whether
they are averaged) and `local_sgd` (steps, the step up to which it is every one).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ... import _core
from ...static.program import Program
from .role import Identity
from .strategy import DistributedStrategy

# Features of a strategy that programs of a collective job have.
FEATURES = ("amp", "gradient_merge", "localsgd")
# Who is alone needs no address, but has one in Paddle.
_ALONE = ("127.0.0.1:6170",)


class CollectiveRuntime:
    """The programs of one process."""

    def __init__(self, identity: Identity, settings: Mapping[str, Any]) -> None:
        self.identity = identity
        self._settings = dict(settings)
        # The program before it was rewritten.
        self.origin: Program | None = None
        self.main: Program | None = None
        self.startup: Program | None = None

    def split(self, main: Program, startup: Program) -> None:
        """Makes `main` and `startup` the programs of this process."""
        identity = self.identity
        endpoints = list(identity.worker_endpoints or _ALONE)
        if identity.worker_num != len(endpoints):
            raise ValueError(
                f"there are {identity.worker_num} workers, but {len(endpoints)} addresses of them:"
                " see `PADDLE_TRAINERS_NUM` and `PADDLE_TRAINER_ENDPOINTS`"
            )
        self.origin = main.clone()
        _core.distribute_collective(identity.index, endpoints, main, startup, self._settings)
        self.main, self.startup = main, startup


def settings_of(strategy: DistributedStrategy, workers: int) -> dict[str, Any]:
    """What the engine is told of a strategy.

    >>> from bireme.distributed.fleet.collective import settings_of
    >>> strategy = paddle.distributed.fleet.DistributedStrategy()
    >>> strategy.localsgd = True
    >>> strategy.localsgd_configs = {"k_steps": 4}
    >>> settings_of(strategy, 2)["local_sgd"]
    (4, 1)
    """
    if strategy.sync_batch_norm and workers > 1:
        raise NotImplementedError(
            "`sync_batch_norm` of `DistributedStrategy` is not in this version: leave it off"
        )
    scale = strategy.gradient_scale_configs["scale_strategy"]
    if scale not in ("avg", "sum"):
        raise NotImplementedError(f"`scale_strategy` must be avg or sum, not {scale!r}")
    settings = {
        "fuse": strategy.fuse_all_reduce_ops,
        "bucket_mb": float(strategy.fuse_grad_size_in_MB),
        "average": scale == "avg",
    }
    if strategy.gradient_merge:
        configs = strategy.gradient_merge_configs
        settings["gradient_merge"] = (configs["k_steps"], configs["avg"])
    if strategy.localsgd:
        configs = strategy.localsgd_configs
        settings["local_sgd"] = (configs["k_steps"], configs["begin_step"])
    return settings
