"""Trains the `StaticModel` of a folder in GPUBox: `tools/static_gpubox_trainer.py`.

One process is the server, another the worker, as `tools/run_gpubox.sh` starts them. The samples of an
epoch are a pass: its rows are brought onto the card, trained there, and given back. With
`runner.reader_type: QueueDataset` they are a stream, whose rows come and go as it is read.
"""

from __future__ import annotations

import os
import time
from typing import Any

from .config import arguments, load, table
from .log import logger
from .servers import _DATASETS, Trainer


def main(argv: list[str] | None = None) -> None:
    """`static_gpubox_trainer.py -m config.yaml [-o key=value ...]`."""
    parser = arguments("PaddleRec train script")
    parser.add_argument("--profiler_options", default=None, help="has no effect here")
    arguments_ = parser.parse_args(argv)
    if arguments_.profiler_options:
        raise NotImplementedError("`--profiler_options` is not in this version: leave it out")
    config = load(arguments_.config_yaml, arguments_.opt, ["table_parameters"])
    print(table(config), flush=True)
    BoxTrainer(config).run()


class BoxTrainer(Trainer):
    """A server, or the worker that trains in passes."""

    passes: Any = None

    def _work(self) -> None:
        import bireme as paddle

        from ..distributed import fleet

        if self.config.get("runner.sync_mode") != "gpubox":
            raise ValueError(
                "`runner.sync_mode` must be gpubox: use tools/static_ps_trainer.py else"
            )
        if self.config.get("runner.reader_type") not in _DATASETS:
            raise ValueError(
                f"`runner.reader_type` must be one of {', '.join(_DATASETS)} in GPUBox, whose keys are"
                " given rows by a dataset"
            )
        logger.info("Run Worker Begin")
        place = paddle.CUDAPlace(0) if self.config.get("runner.use_gpu") else paddle.CPUPlace()
        self.executor = paddle.static.Executor(place)
        self.program = paddle.static.default_main_program()
        startup = paddle.static.default_startup_program()
        self._dump_programs(startup)
        self.executor.run(startup)
        fleet.init_worker()
        self.passes = paddle.framework.core.PSGPU()
        if self.config.get("runner.use_gpu"):
            cards = os.environ.get("FLAGS_selected_gpus") or "0"
            self.passes.init_gpu_ps([int(card) for card in cards.split(",")])
        for epoch in range(int(self.config["runner.epochs"])):
            self._epoch(epoch)
            logger.info(f"finish {epoch} epoch training....")
        self.passes.finalize()

    def _dataset_epoch(self, epoch: int) -> None:
        if self.config.get("runner.reader_type") == "QueueDataset":
            super()._dataset_epoch(epoch)
            self.passes.end_pass()
            return
        begun = time.time()
        self.reader.load_into_memory()
        print(f"self.reader.load_into_memory cost :{time.time() - begun} seconds", flush=True)
        begun = time.time()
        self.passes.begin_pass()
        print(f"begin_pass cost:{time.time() - begun} seconds", flush=True)
        super()._dataset_epoch(epoch)
        self.passes.end_pass()
        self.reader.release_memory()
