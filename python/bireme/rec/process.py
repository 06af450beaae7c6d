"""One process of a job with parameter servers: what it does follows from its role."""

from __future__ import annotations

import os
from typing import Any

from . import auc
from .config import Config
from .folder import static_model
from .log import logger, start
from .static import threads
from .strategy import strategy_of


class Process:
    """A server, a heter worker, or a worker; what a worker does is in `_work` of subclasses."""

    # Where servers take their first parameters from.
    warmup: str | None = None
    program: Any = None

    def __init__(self, config: Config) -> None:
        self.config = config

    def run(self) -> None:
        """Builds the network and does what this process's role is to do."""
        import bireme as paddle

        from ..distributed import fleet

        start()
        paddle.enable_static()
        # The workers of a job tell each other what they counted.
        os.environ["PADDLE_WITH_GLOO"] = "1"
        threads(self.config)
        paddle.seed(self.config.get("runner.seed", 12345))
        fleet.init()
        self._build()
        if fleet.is_server():
            logger.info("Run Server Begin")
            fleet.init_server(self.warmup)
            fleet.run_server()
        elif fleet.is_heter_worker():
            logger.info("Run Heter Worker Begin")
            paddle.static.Executor(paddle.CPUPlace()).run(paddle.static.default_startup_program())
            fleet.init_heter_worker()
            fleet.run_heter_worker()
        else:
            self._work()
            fleet.stop_worker()
            self._after_work()
        logger.info("Run Success, Exit.")

    def _build(self) -> None:
        self.model = static_model(self.config)
        self.feeds = self.model.create_feeds()
        self._before_net()
        self.metrics = self.model.net(self.feeds)
        self._after_net()
        logger.info(f"cpu_num: {os.environ['CPU_NUM']}")
        self.model.create_optimizer(strategy_of(self.config))

    def _before_net(self) -> None:
        pass

    def _after_net(self) -> None:
        pass

    def _work(self) -> None:
        raise NotImplementedError

    def _after_work(self) -> None:
        pass

    def _reset_auc(self) -> None:
        """Lets the counters of all AUCs begin anew."""
        from ..static import global_scope

        for names in auc.counters(self.program):
            auc.reset(global_scope(), names)
