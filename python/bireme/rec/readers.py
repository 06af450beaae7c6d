"""The readers of a run: loaders over a folder's `RecDataset` or generator, and datasets."""

from __future__ import annotations

import os
import shlex
import sys
from typing import Any

from .config import Config
from .folder import import_from
from .log import logger

# What a pipe command may import by the path it is given.
PIPE_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pipe")


def data_loader(config: Config, place: Any, mode: str = "train") -> Any:
    """Batches of what the folder's `RecDataset` yields."""
    from ..io import DataLoader

    use, reader = ("train", "train") if mode == "train" else ("test", "infer")
    folder = os.path.join(config["config_abs_dir"], _needed(config, f"runner.{use}_data_dir"))
    name = config.get(f"runner.{reader}_reader_path", "reader")
    files = files_of(folder)
    logger.info(f"reader path:{name}")
    dataset = import_from(config["config_abs_dir"], name).RecDataset(files, config=config)
    size = "train_batch_size" if mode == "train" else "infer_batch_size"
    return DataLoader(
        dataset,
        batch_size=_needed(config, f"runner.{size}"),
        places=place,
        drop_last=True,
        num_workers=config.get("runner.num_workers", 0),
    )


def refuse_empty(loader: Any, name: str) -> None:
    """An epoch over no batch would train nothing and say nothing."""
    assert any(True for _ in loader()), f"{name} is null, please ensure batch size < dataset size!"


def training_reader(variables: list[Any], config: Config) -> tuple[Any, list[str]]:
    """What `runner.reader_type` asks for, and the files that this worker reads."""
    files = worker_files(config)
    kind = config.get("runner.reader_type")
    if kind in ("QueueDataset", "InmemoryDataset", "InMemoryDataset"):
        return _dataset(kind, variables, files, config), files
    if kind == "DataLoader":
        return _generator_loader(variables, files, config), files
    if kind in (None, "RecDataset"):
        return _rec_loader(files, config), files
    raise ValueError(
        f"`runner.reader_type` is {kind!r}: it must be QueueDataset, InmemoryDataset, DataLoader or"
        " RecDataset"
    )


def files_of(folder: str) -> list[str]:
    """All files of a folder, in the order of their names: two runs read the same."""
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"there is no data folder `{folder}`")
    files = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    if not files:
        raise FileNotFoundError(f"the data folder `{folder}` is empty")
    return files


def worker_files(config: Config) -> list[str]:
    """The files of the training folder; with `runner.split_file_list` this worker's share."""
    from ..distributed import fleet

    folder = os.path.join(config["config_abs_dir"], _needed(config, "runner.train_data_dir"))
    files = files_of(folder)
    if config.get("runner.split_file_list"):
        logger.info(f"Split file list for worker {fleet.worker_index()}")
        files = fleet.util.get_file_shard(files)
    logger.info(f"File list: {files}")
    return files


def count_examples(files: list[str], method: str) -> int:
    """How many samples (lines), or words, the files have."""
    if method not in ("example", "word"):
        raise ValueError(
            "Set static_benchmark.example_count_method for example / word for example count."
        )
    total = 0
    for file in files:
        with open(file, "rb") as lines:
            here = sum(1 if method == "example" else len(line.split()) for line in lines)
        logger.info(f"File: {file} has {here} {method}s")
        total += here
    logger.info(f"Total {method}: {total}")
    return total


def pipe_command(config: Config) -> str:
    """The command of the config, with the script found beside it and what its `main` expects.

    `python` is the interpreter that runs this: another one may know neither Bireme nor numpy.
    """
    command = _needed(config, "runner.pipe_command")
    if command.strip() == "cat" or command.strip().startswith("native:"):
        return command
    words = shlex.split(command)
    if words and words[0] in ("python", "python3"):
        words[0] = sys.executable
    folder = config["config_abs_dir"]
    for at, word in enumerate(words[1:], start=1):
        beside = os.path.join(folder, word)
        if word.endswith(".py") and not os.path.exists(word) and os.path.exists(beside):
            words[at] = beside
    words += [os.path.abspath(config["yaml_path"]), PIPE_FOLDER]
    return shlex.join(words)


def dataset_of(kind: str, settings: dict[str, Any], files: list[str]) -> Any:
    """A dataset by the name that configs call it."""
    from ..distributed import InMemoryDataset, QueueDataset

    dataset = QueueDataset() if kind == "QueueDataset" else InMemoryDataset()
    dataset.init(**settings)
    dataset.set_filelist(files)
    return dataset


def _dataset(kind: str, variables: list[Any], files: list[str], config: Config) -> Any:
    logger.info("Get Dataset" if kind == "QueueDataset" else "Get InmemoryDataset")
    settings = {
        "use_var": variables,
        "pipe_command": pipe_command(config),
        "batch_size": int(_needed(config, "runner.train_batch_size")),
        "thread_num": int(config.get("runner.thread_num", 1)),
        "skip_bad_lines": int(config.get("runner.skip_bad_lines", 0)),
    }
    names = config.get("runner.slot_names")
    return dataset_of(kind, {**settings, "slot_names": names} if names else settings, files)


def _generator_loader(variables: list[Any], files: list[str], config: Config) -> Any:
    from ..io import DataLoader
    from ..static import cpu_places

    logger.info("Get DataLoader")
    loader = DataLoader.from_generator(
        feed_list=variables, capacity=64, iterable=False, use_double_buffer=False
    )
    name = _needed(config, "runner.train_reader_path")
    generator = import_from(config["config_abs_dir"], name).Reader()
    generator.init(config)
    if config.get("runner.batch_generator", False):
        loader.set_batch_generator(generator.dataloader(files))
    else:
        size = int(_needed(config, "runner.train_batch_size"))
        loader.set_sample_generator(
            generator.dataloader(files), batch_size=size, drop_last=True, places=cpu_places()
        )
    return loader


def _rec_loader(files: list[str], config: Config) -> Any:
    from ..framework.place import CPUPlace
    from ..io import DataLoader

    logger.info("Get DataLoader")
    name = config.get("runner.train_reader_path", "reader")
    logger.info(f"Reader Path: {os.path.join(config['config_abs_dir'], name)}")
    dataset = import_from(config["config_abs_dir"], name).RecDataset(files, config)
    size = _needed(config, "runner.train_batch_size")
    return DataLoader(dataset, batch_size=size, places=CPUPlace(), drop_last=True)


def _needed(config: Config, key: str) -> Any:
    value = config.get(key)
    if value is None or value == "":
        raise ValueError(f"`{config.get('yaml_path')}` says nothing about `{key}`, which is needed")
    return value
