"""Trains and evaluates the `DygraphModel` of a folder: `tools/trainer.py`, `tools/infer.py`."""

from __future__ import annotations

import os
import time
from typing import Any

from .config import Config, arguments, load
from .folder import eager_model
from .log import Pace, Visual, common_configs, logger, start
from .readers import data_loader, refuse_empty
from .saving import load_eager, save_eager


def main_train(argv: list[str] | None = None) -> None:
    """`trainer.py -m config.yaml [-o key=value ...]`."""
    arguments_ = arguments("paddle-rec run").parse_args(argv)
    train(load(arguments_.config_yaml, arguments_.opt))


def main_infer(argv: list[str] | None = None) -> None:
    """`infer.py -m config.yaml [-o key=value ...]`."""
    arguments_ = arguments("paddle-rec run").parse_args(argv)
    infer(load(arguments_.config_yaml, arguments_.opt))


def train(config: Config) -> None:
    """Trains for `runner.epochs` epochs and saves after each."""
    import bireme as paddle

    start()
    paddle.seed(config.get("runner.seed", 12345))
    folder = config.get("runner.model_save_path", "model_output")
    _log_settings(config, folder)
    place = device(config)
    model = eager_model(config)
    layer = model.create_model(config)
    visual = Visual(config.get("runner.use_visual"), _visual_folder(config, "train"))
    if config.get("runner.model_init_path") is not None:
        load_eager(config["runner.model_init_path"], layer)
    optimizer = model.create_optimizer(layer, config)
    layer, optimizer = distributed(config, layer, optimizer)
    logger.info("read data")
    loader = data_loader(config, place)
    refuse_empty(loader, "train_dataloader")
    run = _Run(model, layer, config, visual, "train")
    for epoch in range(config.get("last_epoch", -1) + 1, config["runner.epochs"]):
        layer.train()
        run.epoch(epoch, loader, optimizer)
        if not config.get("runner.use_fleet", False) or paddle.distributed.get_rank() == 0:
            save_eager(layer, optimizer, folder, epoch)


def infer(config: Config) -> None:
    """Evaluates what `train` saved after epochs `infer_start_epoch` to before `infer_end_epoch`."""
    import bireme as paddle

    start()
    paddle.seed(config.get("runner.seed", 12345))
    folder = config.get("runner.infer_load_path", "model_output")
    epochs = infer_settings(config, folder, ("use_gpu", "use_xpu", "use_npu", "use_visual"))
    place = device(config)
    model = eager_model(config)
    layer = model.create_model(config)
    visual = Visual(config.get("runner.use_visual"), _visual_folder(config, "infer"))
    logger.info("read data")
    loader = data_loader(config, place, mode="test")
    refuse_empty(loader, "test_dataloader")
    run = _Run(model, layer, config, visual, "infer")
    for epoch in epochs:
        logger.info(f"load model epoch {epoch}")
        load_eager(os.path.join(folder, str(epoch)), layer)
        layer.eval()
        run.epoch(epoch, loader)


class _Run:
    """The epochs of one run: metrics, log lines and curves."""

    def __init__(self, model: Any, layer: Any, config: Config, visual: Visual, use: str) -> None:
        self.model, self.layer, self.config, self.visual = model, layer, config, visual
        self.use, self.step = use, 0

    def epoch(self, epoch: int, loader: Any, optimizer: Any = None) -> None:
        """Goes through the data once; with an optimizer it trains."""
        metrics, names = self.model.create_metrics()
        begun, pace, printed = time.time(), Pace(), None
        every = self.config["runner.print_interval"]
        for at, batch in enumerate(loader()):
            pace.begin()
            if optimizer is None:
                metrics, printed = self.model.infer_forward(self.layer, metrics, batch, self.config)
            else:
                metrics, printed = self._train_step(metrics, batch, optimizer)
            pace.end(len(batch[0]))
            if at % every == 0:
                self._log_step(epoch, at, metrics, names, printed, pace)
            self.step += 1
        said = "".join(
            f"{name}: {metric.accumulate():.6f}," for name, metric in zip(names, metrics)
        )
        seconds = time.time() - begun
        logger.info(
            f"epoch: {epoch} done, {said}{self._values(printed)} epoch time: {seconds:.2f} s"
        )

    def _train_step(self, metrics: Any, batch: Any, optimizer: Any) -> tuple[Any, Any]:
        optimizer.clear_grad()
        loss, metrics, printed = self.model.train_forward(self.layer, metrics, batch, self.config)
        loss.backward()
        optimizer.step()
        return metrics, printed

    def _log_step(
        self, epoch: int, at: int, metrics: Any, names: Any, printed: Any, pace: Pace
    ) -> None:
        train = self.use == "train"
        samples = self.config.get("runner.infer_batch_size")
        said = ""
        for name, metric in zip(names, metrics):
            value = metric.accumulate()
            said += f"{name}:{value:.6f}, " if train else f"{name}: {value:.6f},"
            self.visual.add(f"{self.use}/{name}", self.step, value)
        for name, value in (printed or {}).items():
            self.visual.add(f"{self.use}/{name}", self.step, value.numpy())
        every = self.config["runner.print_interval"]
        line = pace.line(every) if train else pace.line(every, digits=2, samples=samples)
        logger.info(f"epoch: {epoch}, batch_id: {at}, {said}{self._values(printed)} {line}")

    def _values(self, printed: Any) -> str:
        text = str if self.use == "train" else lambda value: str(value).strip("[]")
        return "".join(f"{name}:{text(v.numpy())}," for name, v in (printed or {}).items())


def device(config: Config) -> Any:
    """The place that the config asks for."""
    import bireme as paddle

    for kind in ("xpu", "npu"):
        if config.get(f"runner.use_{kind}", False):
            number = os.environ.get(f"FLAGS_selected_{kind}s", "0")
            return paddle.set_device(f"{kind}:{number}")
    if config.get("runner.allow_tf32"):
        paddle.set_flags({"FLAGS_allow_tf32": True})
    return paddle.set_device(card(config) if config.get("runner.use_gpu", True) else "cpu")


def card(config: Config) -> str:
    """The name of this process's GPU: the launcher's choice comes before that of the file.

    >>> card({"runner.selected_gpus": "2,3"})
    'gpu:2'
    >>> card({})
    'gpu'
    """
    chosen = str(config.get("runner.selected_gpus", "")).strip("[] ")
    if not chosen or os.environ.get("FLAGS_selected_gpus"):
        return "gpu"
    return f"gpu:{chosen.split(',')[0].strip()}"


def distributed(config: Config, layer: Any, optimizer: Any) -> tuple[Any, Any]:
    """Model and optimizer of a collective job, where the config asks for one."""
    if not config.get("runner.use_fleet", False):
        return layer, optimizer
    from ..distributed import fleet

    fleet.init(is_collective=True, strategy=fleet.DistributedStrategy())
    optimizer = fleet.distributed_optimizer(optimizer)
    return fleet.distributed_model(layer), optimizer


def infer_settings(config: Config, folder: str, flags: tuple[str, ...]) -> range:
    """Logs the settings of an evaluation; the epochs that it is about."""
    first = config.get("runner.infer_start_epoch", 0)
    end = config.get("runner.infer_end_epoch", 10)
    said = {name: config.get(f"runner.{name}", name == "use_gpu") for name in flags}
    common_configs(
        said
        | {
            "infer_batch_size": config.get("runner.infer_batch_size"),
            "test_data_dir": config.get("runner.test_data_dir"),
            "start_epoch": first,
            "end_epoch": end,
            "print_interval": config.get("runner.print_interval"),
            "model_load_path": folder,
        }
    )
    return range(first, end)


def train_settings(config: Config, folder: str, flags: tuple[str, ...]) -> None:
    """Logs the settings of a training."""
    said = {name: config.get(f"runner.{name}", name == "use_gpu") for name in flags}
    common_configs(
        said
        | {
            "train_batch_size": config.get("runner.train_batch_size"),
            "train_data_dir": config.get("runner.train_data_dir"),
            "epochs": config.get("runner.epochs"),
            "print_interval": config.get("runner.print_interval"),
            "model_save_path": folder,
        }
    )


def _log_settings(config: Config, folder: str) -> None:
    train_settings(config, folder, ("use_gpu", "use_xpu", "use_npu", "use_visual"))


def _visual_folder(config: Config, use: str) -> str:
    return os.path.join(config["config_abs_dir"], "visualDL_log", use)
