"""Trains on data that comes in passes, day after day: `tools/static_ps_online_trainer.py`.

Data lies in `train_data_dir/YYYYMMDD/HHMM`, a folder for each slice of `split_interval` minutes; a
pass is `split_per_pass` of them. What is saved is written down in files whose last line tells a run
that was stopped where to go on.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import _core
from . import auc, metrics
from .config import Config, arguments, load, table
from .log import logger
from .process import Process
from .readers import pipe_command

CHECKPOINTS, MODELS, BASES = "donefile.txt", "xbox_patch_done.txt", "xbox_base_done.txt"


def main(argv: list[str] | None = None) -> None:
    """`static_ps_online_trainer.py -m config.yaml [-o key=value ...]`."""
    arguments_ = arguments("PaddleRec train script").parse_args(argv)
    config = load(arguments_.config_yaml, arguments_.opt, ["table_parameters"])
    print(table(config), flush=True)
    OnlineTrainer(config).run()


class OnlineTrainer(Process):
    """One process of a job: a server, or a worker that trains pass after pass."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.folder = config.get("runner.model_save_path", "model_output")
        self.passes = passes_of_a_day(
            config.get("runner.split_interval", 5), config.get("runner.split_per_pass", 1)
        )
        self.preloaded: Any = None

    def _after_net(self) -> None:
        self.counted = metrics.names_of(self.model)
        names = getattr(self.model, "thread_stat_var_names", None)
        if names:
            self.config["stat_var_names"] = list(names)

    def _work(self) -> None:
        import bireme as paddle

        from ..distributed import fleet

        logger.info("Run Online Worker Begin")
        self.executor = paddle.static.Executor(paddle.CPUPlace())
        self.program = paddle.static.default_main_program()
        self.executor.run(paddle.static.default_startup_program())
        fleet.init_worker()
        os.makedirs(self.folder, exist_ok=True)
        done_day, done_pass, path, self.key = last_of(os.path.join(self.folder, CHECKPOINTS))
        logger.info(
            f"get_last_save_model last_day = {done_day}, last_pass = {done_pass}, last_path ="
            f" {path}, xbox_base_key = {self.key}"
        )
        if done_day != -1:
            logger.info(f"going to load_model {path}")
            fleet.load_model(path, mode=0)
        fleet.barrier_worker()
        self.is_first_pass = True
        day, last = str(self.config["runner.start_day"]), int(self.config["runner.end_day"])
        if self.config.get("runner.save_first_base", False):
            self._save_base(day)
        while int(day) <= last:
            logger.info(f"training a new day {day}, end_day = {last}")
            if int(day) >= done_day:
                self._day(day, done_pass if int(day) == done_day else -1)
            day = next_day(day)

    def _day(self, day: str, done_pass: int) -> None:
        todo = [number for number in range(1, len(self.passes) + 1) if number > done_pass]
        todo = [number for number in todo if self._has_data(day, number)]
        for at, number in enumerate(todo):
            self._pass(day, number, todo[at + 1] if at + 1 < len(todo) else None)
        self._end_day(day)

    def _pass(self, day: str, number: int, following: int | None) -> None:
        costs: dict[str, float] = {}
        begun = time.time()
        logger.info(f"training a new day = {day} new pass = {number}")
        logger.info(f"Day:{day}, Pass: {number}, Prepare Dataset Begin.")
        with _Timed(costs, "read_data"):
            dataset = self._dataset(day, number)
        logger.info(f"Prepare Dataset Done, using time {costs['read_data']} mins.")
        if following is not None and self.config.get("runner.prefetch", False):
            self.preloaded = (day, following, self._open(day, following))
        if not self.is_first_pass:
            self._evaluate(day, number, dataset, costs)
        self.is_first_pass = False
        logger.info(f"Day:{day}, Pass: {number}, Training Dataset Begin.")
        with _Timed(costs, "train"), self._dumping("train", day, number):
            self.executor.train_from_dataset(**self._call(day, number, dataset))
        logger.info(f"Training Dataset Done, using time {costs['train']} mins.")
        with _Timed(costs, "release"):
            dataset.release_memory()
        with _Timed(costs, "metric"):
            said = self._global_metrics()
            logger.info(f"Day:{day}, Pass: {number}, Train Global Metric: {said}")
        self._log_costs(number, (time.time() - begun) / 60, costs)
        if self.config.get("runner.need_infer_dump", False):
            self._dump_evaluation(day, number)
        self._save(day, number, is_last=following is None)

    def _evaluate(self, day: str, number: int, dataset: Any, costs: dict[str, float]) -> None:
        logger.info(f"Day:{day}, Pass: {number}, Infering Dataset Begin.")
        with _Timed(costs, "infer"):
            self.executor.infer_from_dataset(**self._call(day, number, dataset))
        logger.info(f"Infering Dataset Done, using time {costs['infer']} mins.")
        with _Timed(costs, "infer_metric"):
            said = self._global_metrics()
            logger.info(f"Day:{day}, Pass: {number}, Infer Global Metric: {said}")

    def _dump_evaluation(self, day: str, number: int) -> None:
        """Predicts what `runner.infer_data_dir` has for this pass, into files."""
        begun = time.time()
        dataset = self._open(day, number, "infer")
        dataset.wait_preload_done()
        seconds = time.time() - begun
        logger.info(f"Prepare Infer Dump Dataset Done, using time {seconds} second.")
        begun = time.time()
        with self._dumping("infer", day, number):
            self.executor.infer_from_dataset(**self._call(day, number, dataset))
        logger.info(f"Infer Dump Dataset Done, using time {time.time() - begun} second.")
        dataset.release_memory()
        # What was predicted here belongs to no pass.
        self._reset_metrics()

    @contextlib.contextmanager
    def _dumping(self, use: str, day: str, number: int) -> Iterator[None]:
        """Has the program write values into files meanwhile, where the config asks for it."""
        if not self.config.get(f"runner.need_{use}_dump", False):
            yield
            return
        before = getattr(self.program, "_fleet_opt", None) or {}
        of_model = {
            key: [var.name for var in getattr(self.model, f"{use}_dump_{kind}", None) or []]
            for key, kind in (("dump_fields", "fields"), ("dump_param", "params"))
        }
        folder = os.path.join(self.config[f"runner.{use}_dump_fields_dir"], day, str(number))
        options = {**before, **of_model, "dump_fields_path": folder}
        self.program._fleet_opt = options
        try:
            yield
        finally:
            self.program._fleet_opt = before

    def _call(self, day: str, number: int, dataset: Any) -> dict[str, Any]:
        return {
            "program": self.program,
            "dataset": dataset,
            "thread": int(self.config.get("runner.train_thread_num", 12)),
            "fetch_list": list(self.metrics.values()),
            "fetch_info": [f"Day: {day} Pass: {number} Var {name}" for name in self.metrics],
            "print_period": int(self.config.get("runner.print_interval", 100)),
            "debug": bool(self.config.get("runner.dataset_debug", False)),
        }

    def _slices(self, day: str, number: int, use: str = "train") -> list[str]:
        folder = os.path.join(
            self.config["config_abs_dir"], str(self.config[f"runner.{use}_data_dir"])
        )
        return [os.path.join(folder, day, name) for name in self.passes[number - 1]]

    def _has_data(self, day: str, number: int) -> bool:
        """Whether there is, or will be, something to train on: with a donefile it is awaited."""
        done = self.config.get("runner.data_donefile", "")
        if done or any(_files_in(path, done) for path in self._slices(day, number)):
            return True
        logger.info(f"Day:{day}, Pass: {number}, there is no data.")
        return False

    def _open(self, day: str, number: int, use: str = "train") -> Any:
        """The dataset of a pass, which is being loaded."""
        from ..distributed import InMemoryDataset, fleet

        slices = self._slices(day, number, use)
        done = self.config.get("runner.data_donefile", "")
        for path in slices if done else ():
            self._await(os.path.join(path, done))
        files = [file for path in slices for file in _files_in(path, done)]
        logger.info(f"file ls result = {files}")
        mine = fleet.util.get_file_shard(files)
        logger.info(f"my_file_list = {mine}")
        dataset = InMemoryDataset()
        dataset.init(
            use_var=self.feeds,
            batch_size=int(self.config.get(f"runner.{use}_batch_size", 1)),
            thread_num=int(self.config.get("runner.preload_thread_num", 12)),
            pipe_command=pipe_command(self.config),
            slot_names=self.config.get("runner.slot_names"),
        )
        dataset.update_settings(
            parse_ins_id=bool(self.config.get("runner.parse_ins_id", False)),
            parse_content=bool(self.config.get("runner.parse_content", False)),
        )
        # A worker without files takes part in the shuffle all the same.
        dataset.set_filelist(mine or [os.devnull])
        dataset.preload_into_memory()
        return dataset

    def _dataset(self, day: str, number: int) -> Any:
        from ..distributed import fleet

        ahead, self.preloaded = self.preloaded, None
        is_this = ahead is not None and ahead[:2] == (day, number)
        dataset = ahead[2] if is_this else self._open(day, number)
        dataset.wait_preload_done()
        begun = time.time()
        dataset.global_shuffle(fleet, int(self.config.get("runner.shuffle_thread_num", 12)))
        logger.info(f"global_shuffle time cost: {(time.time() - begun) / 60}")
        logger.info(f"after global_shuffle data_size: {dataset.get_shuffle_data_size(fleet)}")
        return dataset

    def _await(self, path: str) -> None:
        while not os.path.isfile(path):
            logger.info(f"wait for data ready: {path}")
            time.sleep(self.config.get("runner.data_sleep_second", 10))

    def _global_metrics(self) -> str:
        """The metrics over all workers; the counters begin anew."""
        from ..distributed import fleet
        from ..static import global_scope

        if self.counted:
            said = metrics.line(global_scope(), self.counted, fleet.util)
            self._reset_metrics()
            return said
        counters = auc.counters(self.program)
        quality = auc.global_auc(global_scope(), counters[0], fleet.util) if counters else None
        samples = 0
        if counters:
            own = [np.array(global_scope().var(n).get_tensor()).sum() for n in counters[0]]
            samples = int(fleet.util.all_reduce(np.array([sum(own)], "int64"))[0])
        self._reset_metrics()
        value = "None" if quality is None else f"{quality:.6f}"
        return f" global AUC={value} Ins number={samples}"

    def _reset_metrics(self) -> None:
        from ..static import global_scope

        if self.counted:
            metrics.reset(global_scope(), self.counted)
        self._reset_auc()

    def _log_costs(self, number: int, total: float, costs: dict[str, float]) -> None:
        parts = {name: costs.get(name, 0.0) for name in _COSTS}
        other = total - sum(parts.values())
        said = "".join(f"[{name}{_COSTS[name]}{cost} min]" for name, cost in parts.items())
        logger.info(
            f"finished train epoch {number} time cost:{total} min job time cost:{said}"
            f"[other:{other} min]"
        )

    def _save(self, day: str, number: int, is_last: bool) -> None:
        from ..distributed import fleet

        every = int(self.config.get("runner.checkpoint_per_pass", 6))
        if number % every == 0 and not is_last:
            self._save_checkpoint(day, number, os.path.join(day, str(number)), 0)
        often = int(self.config.get("runner.save_delta_frequency", 6))
        if number % often == 0:
            done_day, done_pass, _, _ = last_of(os.path.join(self.folder, MODELS))
            if (int(day), number) <= (done_day, done_pass):
                logger.info("delta model exists")
            else:
                self._save_model(day, number, os.path.join(day, f"delta_{number}"), 1)
        fleet.barrier_worker()

    def _end_day(self, day: str) -> None:
        from ..distributed import fleet

        following = next_day(day)
        done_day, _, path, key = last_of(os.path.join(self.folder, BASES))
        logger.info(
            "one epoch finishes, get_last_save_xbox, last_base_day ="
            f" {done_day}, last_base_path = {path}, last_base_key = {key}"
        )
        # All workers must decide alike before the first one writes.
        fleet.barrier_worker()
        if int(following) <= done_day:
            logger.info("batch model/base xbox model exists")
        else:
            logger.info("shrink table")
            fleet.shrink()
            self._save_base(following)
            self._save_checkpoint(following, -1, os.path.join(following, "0"), 3)
        fleet.barrier_worker()

    def _save_base(self, day: str) -> None:
        self.key = int(time.time())
        self._save_model(day, -1, os.path.join(day, "base"), 2)

    def _save_checkpoint(self, day: str, number: int, name: str, mode: int) -> None:
        self._write(day, number, name, mode, CHECKPOINTS)

    def _save_model(self, day: str, number: int, name: str, mode: int) -> None:
        self._write(day, number, name, mode, BASES if number == -1 else MODELS)

    def _write(self, day: str, number: int, name: str, mode: int, done: str) -> None:
        from ..distributed import fleet

        path = os.path.join(self.folder, name)
        logger.info(f"going to save_model {path}")
        fleet.save_persistables(self.executor, path, None, mode=mode)
        if not fleet.is_first_worker():
            return
        with open(os.path.join(self.folder, done), "a", encoding="utf-8") as file:
            file.write(f"{day}\t{self.key}\t{path}\t{number}\t0\n")
        logger.info(f"write {day}/{number} {done} succeed")


# How Paddle's line writes them.
_COSTS = {
    "read_data": ":",
    "train": ": ",
    "metric": ": ",
    "release": ": ",
    "infer": ":",
    "infer_metric": ": ",
}


class _Timed:
    """Notes how many minutes something took."""

    def __init__(self, costs: dict[str, float], name: str) -> None:
        self._costs, self._name = costs, name

    def __enter__(self) -> None:
        self._begun = time.time()

    def __exit__(self, *_: object) -> None:
        self._costs[self._name] = (time.time() - self._begun) / 60


def passes_of_a_day(split_interval: int, split_per_pass: int) -> list[list[str]]:
    """The folders of each pass of a day.

    >>> passes_of_a_day(360, 2)
    [['0000', '0600'], ['1200', '1800']]
    >>> passes_of_a_day(480, 2)
    [['0000', '0800']]
    """
    return _core.passes_of_a_day(int(split_interval), int(split_per_pass))


def next_day(day: str) -> str:
    """The day after one.

    >>> next_day("20241231")
    '20250101'
    """
    return _core.next_day(int(day))


def last_of(path: str) -> tuple[int, int, str, int]:
    """Day, pass, folder and key of what was saved last; a day of -1 for nothing yet.

    >>> last_of("no such file")[:3]
    (-1, -1, '')
    """
    lines = []
    if os.path.isfile(path):
        with open(path, encoding="utf-8") as file:
            lines = [line for line in file.read().splitlines() if line]
    if not lines:
        return -1, -1, "", int(time.time())
    day, key, folder, number = lines[-1].split("\t")[:4]
    return int(day), int(number), folder, int(key)


def _files_in(folder: str, but: str) -> list[str]:
    if not os.path.isdir(folder):
        return []
    found = [
        os.path.join(root, name)
        for root, _, names in os.walk(folder)
        for name in names
        if name != but
    ]
    return sorted(found)
