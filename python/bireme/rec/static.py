"""Trains and evaluates the `StaticModel` of a folder: `static_trainer.py`, `static_infer.py`."""

from __future__ import annotations

import os
import time
from typing import Any

from . import auc
from .config import Config, arguments, load
from .eager import device, infer_settings, train_settings
from .folder import infer_model, static_model
from .log import Pace, Visual, logger, start
from .readers import data_loader, refuse_empty, training_reader
from .saving import load_static, save_inference, save_static

_DATASETS = ("QueueDataset", "InmemoryDataset", "InMemoryDataset")


def main_train(argv: list[str] | None = None) -> None:
    """`static_trainer.py -m config.yaml [-o key=value ...]`."""
    arguments_ = arguments("PaddleRec train static script").parse_args(argv)
    train(load(arguments_.config_yaml, arguments_.opt))


def main_infer(argv: list[str] | None = None) -> None:
    """`static_infer.py -m config.yaml [-o key=value ...]`."""
    arguments_ = arguments("PaddleRec infer static script").parse_args(argv)
    infer(load(arguments_.config_yaml, arguments_.opt))


def train(config: Config) -> None:
    """Trains for `runner.epochs` epochs and saves after each."""
    import bireme as paddle

    start()
    paddle.enable_static()
    paddle.seed(config.get("runner.seed", 12345))
    threads(config)
    model = static_model(config)
    feeds = model.create_feeds()
    fetches = model.net(feeds)
    logger.info(f"cpu_num: {os.environ['CPU_NUM']}")
    folder = config.get("runner.model_save_path", "model_output")
    train_settings(config, folder, ("use_gpu", "use_xpu", "use_visual"))
    place = device(config)
    is_saver = _create_optimizer(model, config)
    executor = paddle.static.Executor(place)
    executor.run(paddle.static.default_startup_program())
    program = paddle.static.default_main_program()
    if config.get("runner.model_init_path") is not None:
        load_static(program, config["runner.model_init_path"], executor)
    run = _Run(config, program, executor, fetches, "train")
    read = run.reader(model, feeds, place)
    for epoch in range(config.get("last_epoch", -1) + 1, config["runner.epochs"]):
        read(epoch)
        if is_saver:
            save_static(program, folder, epoch)
            save_inference(config, program, folder, epoch, executor)


def infer(config: Config) -> None:
    """Evaluates what `train` saved after epochs `infer_start_epoch` to before `infer_end_epoch`."""
    import bireme as paddle

    start()
    paddle.enable_static()
    paddle.seed(config.get("runner.seed", 12345))
    threads(config)
    model = infer_model(config)
    feeds = model.create_feeds(is_infer=True)
    fetches = model.infer_net(feeds)
    logger.info(f"cpu_num: {os.environ['CPU_NUM']}")
    folder = config.get("runner.infer_load_path", "model_output")
    epochs = infer_settings(config, folder, ("use_gpu", "use_visual"))
    executor = paddle.static.Executor(device(config))
    executor.run(paddle.static.default_startup_program())
    program = paddle.static.default_main_program()
    run = _Run(config, program, executor, fetches, "infer")
    loader = data_loader(config, executor.place, mode="test")
    refuse_empty(loader, "test_dataloader")
    for epoch in epochs:
        logger.info(f"load model epoch {epoch}")
        load_static(program, os.path.join(folder, str(epoch)), executor)
        run.loader_epoch(epoch, [feed.name for feed in feeds], loader)


class _Run:
    """The epochs of one run: steps, log lines and curves."""

    def __init__(
        self, config: Config, program: Any, executor: Any, fetches: dict[str, Any], use: str
    ) -> None:
        self.config, self.program, self.executor = config, program, executor
        self.fetches, self.use, self.step = fetches, use, 0
        folder = os.path.join(config["config_abs_dir"], "visualDL_log", use)
        self.visual = Visual(config.get("runner.use_visual"), folder)

    def reader(self, model: Any, feeds: list[Any], place: Any) -> Any:
        """What goes through the data once when it is called with the epoch."""
        kind = self.config.get("runner.reader_type", "DataLoader")
        if kind in _DATASETS:
            dataset, _ = training_reader(feeds, self.config)
            if kind != "QueueDataset":
                dataset.load_into_memory()
            return lambda epoch: self.dataset_epoch(epoch, dataset)
        if kind == "CustomizeDataLoader":
            loader = model.create_data_loader()
        elif kind in ("DataLoader", "RecDataset"):
            loader = data_loader(self.config, place)
        else:
            raise ValueError(f"reader type wrong: `runner.reader_type` is {kind!r}")
        refuse_empty(loader, "train_dataloader")
        names = [feed.name for feed in feeds]
        return lambda epoch: self.loader_epoch(epoch, names, loader)

    def loader_epoch(self, epoch: int, names: list[str], loader: Any) -> None:
        """Goes through a loader once."""
        self._reset_auc()
        begun, pace, fetched = time.time(), Pace(), []
        every = self.config["runner.print_interval"]
        for at, batch in enumerate(loader()):
            pace.begin()
            fetched = self.executor.run(
                program=self.program,
                feed=dict(zip(names, batch)),
                fetch_list=list(self.fetches.values()),
            )
            pace.end(len(batch[0]))
            if at % every == 0:
                for name, value in zip(self.fetches, fetched):
                    self.visual.add(f"{self.use}/{name}", self.step, value)
                line = self._pace(pace, every)
                logger.info(f"epoch: {epoch}, batch_id: {at}, {self._said(fetched)}{line}")
            self.step += 1
        seconds = time.time() - begun
        logger.info(f"epoch: {epoch} done, {self._said(fetched)}epoch time: {seconds:.2f} s")

    def dataset_epoch(self, epoch: int, dataset: Any) -> None:
        """Goes through a dataset once; the executor prints the lines of its steps."""
        self._reset_auc()
        begun = time.time()
        self.executor.train_from_dataset(
            program=self.program,
            dataset=dataset,
            fetch_list=list(self.fetches.values()),
            fetch_info=[f"Epoch {epoch} Var {name}" for name in self.fetches],
            print_period=self.config["runner.print_interval"],
            debug=bool(self.config.get("runner.dataset_debug")),
        )
        logger.info(f"epoch: {epoch} done, epoch time: {time.time() - begun:.2f} s")

    def _pace(self, pace: Pace, batches: int) -> str:
        if self.use == "train":
            return pace.line(batches)
        return pace.line(batches, digits=2, samples=self.config["runner.infer_batch_size"])

    def _said(self, fetched: list[Any]) -> str:
        if self.use == "infer":
            fetched = [value[0] for value in fetched]
        return "".join(
            f"{name}: {str(value).strip('[]')}, " for name, value in zip(self.fetches, fetched)
        )

    def _reset_auc(self) -> None:
        from ..static import global_scope

        if not self.config.get("runner.use_auc", False):
            return
        for names in auc.counters(self.program):
            auc.reset(global_scope(), names)
            for name in names:
                logger.info(f"AUC Reset To Zero: {name}")


def threads(config: Config) -> None:
    """Tells the process how many threads train; see `CPU_NUM`."""
    os.environ["CPU_NUM"] = str(config.get("runner.thread_num", 1))


def _create_optimizer(model: Any, config: Config) -> bool:
    """Whether this process saves: with `use_fleet` the first one does."""
    if not config.get("runner.use_fleet", False):
        model.create_optimizer()
        return True
    from ..distributed import fleet

    strategy = fleet.DistributedStrategy()
    fleet.init(is_collective=True, strategy=strategy)
    model.create_optimizer(strategy)
    return fleet.is_first_worker()
