"""Trains the `StaticModel` of a folder with parameter servers: `tools/static_ps_trainer.py`.

Every process of the job runs the same script. Without a launcher it trains alone.
"""

from __future__ import annotations

import os
import time
from typing import Any

from ..framework.place import place_of
from . import auc
from .config import Config, arguments, load, table
from .eager import card
from .log import Pace, logger
from .process import Process
from .readers import count_examples, training_reader
from .strategy import is_distributed

_DATASETS = ("QueueDataset", "InmemoryDataset", "InMemoryDataset")


def main(argv: list[str] | None = None) -> None:
    """`static_ps_trainer.py -m config.yaml [-o key=value ...] [-bf16 False]`."""
    parser = arguments("PaddleRec train script")
    parser.add_argument("-bf16", "--pure_bf16", default="False", help="whether use bf16")
    arguments_ = parser.parse_args(argv)
    if arguments_.pure_bf16.lower() not in ("false", "0"):
        raise NotImplementedError("training in bfloat16 (`-bf16`) is not in this version")
    config = load(arguments_.config_yaml, arguments_.opt, ["table_parameters"])
    config["pure_bf16"] = False
    print(table(config), flush=True)
    Trainer(config).run()


class Trainer(Process):
    """One process of a job: a server, or a worker that trains."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.warmup = config.get("runner.warmup_model_path")
        self.results: dict[str, list[float]] = {"speed": [], "auc": []}
        self.examples, self.method = 0, "example"

    def _before_net(self) -> None:
        from ..distributed import fleet

        if fleet.is_worker():
            self.reader, files = training_reader(self.feeds, self.config)
            self.method = self.config.get("runner.example_count_method", "example")
            self.examples = count_examples(files, self.method)

    def _work(self) -> None:
        import bireme as paddle

        from ..distributed import fleet

        logger.info("Run Worker Begin")
        # A place by itself: what a worker does outside of its steps stays on the CPU.
        on_card = self.config.get("runner.use_gpu")
        place = place_of(card(self.config)) if on_card else paddle.CPUPlace()
        self.executor = paddle.static.Executor(place)
        self.program = paddle.static.default_main_program()
        startup = paddle.static.default_startup_program()
        self._dump_programs(startup)
        self.executor.run(startup)
        fleet.init_worker()
        in_memory = self.config.get("runner.reader_type") in _DATASETS[1:]
        if in_memory:
            self.reader.load_into_memory()
        for epoch in range(int(self.config["runner.epochs"])):
            self._epoch(epoch)
        if in_memory:
            self.reader.release_memory()

    def _epoch(self, epoch: int) -> None:
        from ..distributed import fleet

        begun = time.time()
        kind = self.config.get("runner.reader_type")
        if kind in _DATASETS:
            self._dataset_epoch(epoch)
        elif kind == "DataLoader":
            self._loader_epoch(epoch)
        else:
            self._rec_epoch(epoch)
        seconds = time.time() - begun
        speed = self.examples / seconds
        said = f"{self.method}/sec."
        quality = self._global_auc()
        if quality is None:
            logger.info(f"Epoch: {epoch}, using time {seconds} second, ips {speed} {said}")
        else:
            self.results["auc"].append(quality)
            logger.info(
                f"Epoch: {epoch}, using time: {seconds} second, ips: {speed} {said} auc: {quality}"
            )
        self.results["speed"].append(speed)
        self._save(epoch)
        fleet.barrier_worker()

    def _dataset_epoch(self, epoch: int) -> None:
        heter = self.config.get("runner.sync_mode") == "heter"
        if heter:
            logger.info(f"Epoch: {epoch}, Running Begin. Check running metrics at heter_log")
        else:
            logger.info(f"Epoch: {epoch}, Running Dataset Begin.")
        metrics = {} if heter else self.metrics
        debug = bool(self.config.get("runner.dataset_debug", False))
        if self.config.get("runner.need_dump"):
            debug = True
            self._dump_fields(epoch)
        self.executor.train_from_dataset(
            program=self.program,
            dataset=self.reader,
            fetch_list=list(metrics.values()),
            fetch_info=[f"Epoch {epoch} Var {name}" for name in metrics],
            print_period=int(self.config.get("runner.print_interval", 100)),
            debug=debug,
        )

    def _loader_epoch(self, epoch: int) -> None:
        from ..framework.core import EOFException

        logger.info(f"Epoch: {epoch}, Running DataLoader Begin.")
        batch, seconds, samples = 0, 0.0, 0
        every = int(self.config["runner.print_interval"])
        self.reader.start()
        while True:
            begun = time.time()
            try:
                fetched = self._step(None)
            except EOFException:
                self.reader.reset()
                return
            seconds += time.time() - begun
            samples += self.config["runner.train_batch_size"]
            batch += 1
            if batch % every == 0:
                profile = (
                    f"avg_batch_cost: {seconds / every:.5f} sec, "
                    f"avg_samples: {samples / every:.5f}, "
                    f"ips: {samples / max(seconds, 1e-9):.5f} {self.method}/sec "
                )
                logger.info(f"Epoch: {epoch}, Batch: {batch}, {self._said(fetched)} {profile}")
                seconds, samples = 0.0, 0

    def _rec_epoch(self, epoch: int) -> None:
        logger.info(f"Epoch: {epoch}, Running RecDatast Begin.")
        names, pace = [feed.name for feed in self.feeds], Pace()
        every = int(self.config["runner.print_interval"])
        for at, batch in enumerate(self.reader()):
            pace.begin()
            fetched = self._step(dict(zip(names, batch)))
            pace.end(len(batch[0]))
            if at % every == 0:
                line = pace.line(every, f"{self.method}/sec")
                logger.info(f"Epoch: {epoch}, Batch_id: {at}, {self._said(fetched)} {line}")

    def _step(self, feed: Any) -> list[Any]:
        return self.executor.run(
            program=self.program, feed=feed, fetch_list=list(self.metrics.values())
        )

    def _said(self, fetched: list[Any]) -> str:
        return "".join(f"{name}: {value}, " for name, value in zip(self.metrics, fetched))

    def _global_auc(self) -> float | None:
        """The AUC of this epoch over all workers; the counters begin anew."""
        from ..distributed import fleet
        from ..static import global_scope

        counters = auc.counters(self.program)
        if not counters:
            return None
        quality = auc.global_auc(global_scope(), counters[0], fleet.util)
        self._reset_auc()
        return quality

    def _save(self, epoch: int) -> None:
        from ..distributed import fleet
        from ..static import save_inference_model

        folder = self.config.get("runner.model_save_path")
        if not folder or not fleet.is_first_worker():
            return
        folder = os.path.join(folder, str(epoch))
        os.makedirs(folder, exist_ok=True)
        target = self.model.inference_target_var
        feeds = list(getattr(self.model, "inference_feed_vars", None) or self.feeds)
        if is_distributed():
            names = [feed.name for feed in feeds]
            fleet.save_inference_model(self.executor, folder, names, [target])
        else:
            prefix = os.path.join(folder, "rec_inference")
            save_inference_model(prefix, feeds, [target], self.executor, program=self.program)

    def _dump_programs(self, startup: Any) -> None:
        from ..distributed import fleet

        for name, program in (("main", self.program), ("startup", startup)):
            path = f"./{fleet.worker_index()}_worker_{name}_program.prototxt"
            with open(path, "w", encoding="utf-8") as file:
                file.write(str(program))

    def _dump_fields(self, epoch: int) -> None:
        folder = os.path.join(self.config["runner.dump_fields_path"], str(epoch))
        options = {
            **(getattr(self.program, "_fleet_opt", None) or {}),
            "dump_fields_path": folder,
            "dump_fields": self.config.get("runner.dump_fields", []),
        }
        self.program._fleet_opt = options

    def _after_work(self) -> None:
        logger.info(f"train_result_dict: {self.results}")
        with open("./train_result_dict.txt", "w", encoding="utf-8") as file:
            file.write(str(self.results))
