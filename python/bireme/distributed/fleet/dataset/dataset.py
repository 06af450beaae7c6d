"""`QueueDataset` and `InMemoryDataset`: what `Executor.train_from_dataset` trains on."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from .... import _core
from .settings import DataSettings

# What `init` and `update_settings` of a dataset in memory take.
_INIT = (
    "batch_size",
    "thread_num",
    "use_var",
    "input_type",
    "fs_name",
    "fs_ugi",
    "pipe_command",
    "download_cmd",
    "data_feed_type",
    "queue_num",
)
_DISTRIBUTED = (
    "merge_size",
    "parse_ins_id",
    "parse_content",
    "fleet_send_batch_size",
    "fleet_send_sleep_seconds",
    "fea_eval",
    "candidate_size",
)
_OWN = ("skip_bad_lines", "slot_names", "seed")

_log = logging.getLogger(__name__)
# What `PSGPU.begin_pass` begins with: the dataset that was loaded last, as long as somebody has it.
_for_pass: weakref.ref[InMemoryDataset] | None = None


def loaded_for_pass() -> Any:
    """What the last dataset that was loaded holds, for a pass of GPUBox; None where there is none."""
    dataset = _for_pass() if _for_pass is not None else None
    return None if dataset is None else dataset._data


def _remember_for_pass(dataset: InMemoryDataset) -> None:
    global _for_pass
    _for_pass = weakref.ref(dataset)


class DatasetBase:
    """What all datasets have: settings and files.

    >>> dataset = paddle.distributed.fleet.DatasetBase()
    >>> dataset.init(batch_size=2)
    >>> dataset.set_filelist(["a.txt", "b.txt"])
    >>> dataset.filelist
    ['a.txt', 'b.txt']
    """

    _feed = ""

    def __init__(self) -> None:
        self._settings = DataSettings()
        self._seed = 0
        # What was said about the files: it is said once.
        self._known_empty: set[str] = set()
        self._known_bad = 0
        self.use_ps_gpu = False

    @property
    def thread_num(self) -> int:
        """How many files are read at the same time."""
        return self._settings.thread_num

    @property
    def filelist(self) -> list[str]:
        """The files, as `set_filelist` got them."""
        return self._settings.filelist

    def init(
        self,
        batch_size: int = 1,
        thread_num: int = 1,
        use_var: list[Any] = [],  # noqa: B006 (Paddle's signature; it is copied)
        pipe_command: str = "cat",
        input_type: int = 0,
        fs_name: str = "",
        fs_ugi: str = "",
        download_cmd: str = "cat",
        *,
        skip_bad_lines: int = 0,
        slot_names: list[str] | None = None,
        seed: int = 0,
    ) -> None:
        """Says what the dataset reads and how; to be called once, before everything else.

        A variable of `use_var` without LoD takes as many values of each line as its shape says,
        one with `lod_level=1` any number. `pipe_command` gets a file as its standard input and
        writes `MultiSlot` lines; with `cat` files are read without a process between. With
        `input_type=1` a line is a whole batch: each slot has the values of all its samples, one
        value for each where the variable has LoD, and `batch_size` is a number of lines.

        Bireme's own: `native:slot_value` and `native:criteo` as `pipe_command` have the core parse
        these formats, `slot_names` being the tokens of the variables in `slot:value` lines;
        `skip_bad_lines` is how many lines may be wrong before that is an error; `seed` decides
        what shuffles do.

        >>> dataset = paddle.distributed.QueueDataset()
        >>> dataset.init(batch_size=512, thread_num=2, pipe_command="cat", use_var=[])
        >>> dataset.thread_num
        2
        """
        self._set_batch_size(batch_size)
        self._set_thread(thread_num)
        self._set_use_var(use_var)
        self._set_pipe_command(pipe_command)
        self._set_input_type(input_type)
        self._set_hdfs_config(fs_name, fs_ugi)
        self._set_download_cmd(download_cmd)
        self._set_own(skip_bad_lines, slot_names, seed)

    def set_filelist(self, filelist: list[str]) -> None:
        """The files of this worker; folders and patterns stand for the files in them.

        >>> dataset = paddle.distributed.QueueDataset()
        >>> dataset.set_filelist(["train_data/part-0"])
        >>> dataset.filelist
        ['train_data/part-0']
        """
        self._settings.set_filelist(filelist)

    def _set_pipe_command(self, pipe_command: str) -> None:
        self._settings.set_pipe_command(pipe_command)

    def _set_batch_size(self, batch_size: int) -> None:
        self._settings.set_batch_size(batch_size)

    def _set_thread(self, thread_num: int) -> None:
        self._settings.set_thread_num(thread_num)

    def _set_use_var(self, var_list: list[Any]) -> None:
        self._settings.set_use_var(var_list)

    def _set_input_type(self, input_type: int) -> None:
        self._settings.set_input_type(input_type)

    def _set_hdfs_config(self, fs_name: str, fs_ugi: str) -> None:
        self._settings.set_hdfs_config(fs_name, fs_ugi)

    def _set_download_cmd(self, download_cmd: str) -> None:
        self._settings.set_download_cmd(download_cmd)

    def _set_own(self, skip_bad_lines: int, slot_names: list[str] | None, seed: int) -> None:
        self._settings.skip_bad_lines = skip_bad_lines
        self._settings.slot_names = slot_names
        self._seed = seed

    def _desc(self) -> str:
        """The settings as Paddle's text of a data feed.

        >>> print(paddle.distributed.fleet.DatasetBase()._desc(), end="")
        pipe_command: "cat"
        """
        return self._settings.description(self._feed)

    def _source(self) -> Any:
        """What the core reads from."""
        raise NotImplementedError("train on a `QueueDataset` or an `InMemoryDataset`")

    def _trained(self, source: Any, samples: int | None = None) -> None:
        """To be called when all samples that `_source` gave have been trained on."""
        self._tell(source)
        if samples == 0:
            _log.warning(f"no samples were read from {_some(self.filelist)}: nothing was trained")

    def _tell(self, data: Any) -> None:
        """Says what of the files was empty or passed over."""
        empty = [path for path in data.empty_files if path not in self._known_empty]
        if empty:
            self._known_empty.update(empty)
            _log.warning(f"{len(empty)} of the files are empty: {_some(empty)}")
        if data.bad_lines > self._known_bad:
            self._known_bad = data.bad_lines
            _log.warning(
                f"{data.bad_lines} bad lines were passed over (`skip_bad_lines` allows"
                f" {self._settings.skip_bad_lines})"
            )

    def _check_use_var_with_data_generator(
        self, var_list: list[Any], data_generator_class: Any, test_file: str
    ) -> None:
        """Holds what a data generator makes of a file against the variables it shall feed."""
        with open(test_file, encoding="utf-8") as lines:
            for line in lines:
                for sample in data_generator_class.generate_sample(line)():
                    _check_sample(var_list, sample)


class QueueDataset(DatasetBase):
    """Reads files while they are trained on; nothing stays in memory.

    >>> dataset = paddle.distributed.QueueDataset()
    >>> dataset.init(batch_size=1, thread_num=2, pipe_command="cat", use_var=[])
    >>> dataset.set_filelist(["a.txt", "b.txt"])
    >>> dataset.thread_num, dataset.filelist
    (2, ['a.txt', 'b.txt'])
    """

    _feed = "MultiSlotDataFeed"

    def __init__(self) -> None:
        super().__init__()
        self._share_files = False
        self._share: Any = None
        self._epoch = 0

    def init(self, *, share_files: bool = False, **kwargs: Any) -> None:  # type: ignore[override]
        """See `DatasetBase.init`.

        Bireme's own: with `share_files` all workers of a job have the same list of files, and draw
        the next one from it whenever they have read one, so that a slow worker does not hold the
        others. Each file is read by one worker in an epoch; by which, chance decides. It is for
        asynchronous jobs: where steps wait for each other (sync, collective) it is refused. Each
        `train_from_dataset` is an epoch, which ends when all workers have reached its end; all of
        them must make the same calls. `fleet.init` (with servers: `fleet.init_worker`, too) comes
        before the first.

        >>> dataset = paddle.distributed.QueueDataset()
        >>> dataset.init(batch_size=1, thread_num=2)
        >>> dataset.thread_num
        2
        """
        if not isinstance(share_files, bool):
            kind = type(share_files).__name__
            raise TypeError(f"`share_files` must be True or False, not {kind}")
        super().init(**kwargs)
        self._share_files = share_files

    def _source(self) -> Any:
        settings = self._settings.for_core()
        if self._share_files:
            settings["share"], settings["epoch"] = self._shared(), self._epoch
            self._epoch += 1
        return _core.QueueData(self._settings.use_var, settings)

    def _trained(self, source: Any, samples: int | None = None) -> None:
        # Of shared files another worker may have had all.
        super()._trained(source, None if self._share_files else samples)
        if self._share_files:
            # Worker 0 counts the files: it must not end while others still draw.
            _fleet().util.barrier()

    def _shared(self) -> Any:
        if self._share is None:
            self._share = _fleet().util._file_share()
        return self._share


class InMemoryDataset(DatasetBase):
    """Reads files into memory, where samples can be shuffled, before they are trained on.

    >>> dataset = paddle.distributed.InMemoryDataset()
    >>> dataset.init(batch_size=1, thread_num=2, pipe_command="cat", use_var=[])
    >>> dataset.set_filelist(["a.txt", "b.txt"])
    >>> dataset.thread_num, dataset.filelist
    (2, ['a.txt', 'b.txt'])
    """

    _feed = "MultiSlotInMemoryDataFeed"

    def __init__(self) -> None:
        super().__init__()
        self.fea_eval = False
        self.queue_num: int | None = None
        self._candidate_size = 10000
        self._merge_size = -1
        self._data: Any = None
        self._date = ""
        # Each shuffle of a dataset is another one.
        self._shuffles = 0

    def init(self, **kwargs: Any) -> None:  # type: ignore[override]
        """See `DatasetBase.init`; also `queue_num` and `data_feed_type`.

        Training threads take their batches from the samples themselves: there are no queues whose
        number (`queue_num`) would change anything.

        >>> dataset = paddle.distributed.InMemoryDataset()
        >>> dataset.init(batch_size=1, thread_num=2)
        >>> dataset.thread_num
        2
        """
        _refuse_unknown("InMemoryDataset.init", kwargs, _INIT + _OWN)
        self._set_feed_type(kwargs.pop("data_feed_type", self._feed))
        self._set_queue_num(kwargs.pop("queue_num", -1))
        super().init(**kwargs)

    def update_settings(self, **kwargs: Any) -> None:
        """Changes settings of `init` and those of distributed training.

        `parse_ins_id` and `parse_content` say that lines begin with such fields, which dumps show.
        `merge_size` has `global_shuffle` make one sample of so many with the same `ins_id`: dense
        slots have the last values that are not all 0, the others those of the one sample that has
        some; what does not fit together is left out. `fea_eval` with
        `candidate_size` is needed for `slots_shuffle`. `fleet_send_batch_size` and
        `fleet_send_sleep_seconds` say nothing here: samples for another worker travel at once.

        >>> dataset = paddle.distributed.InMemoryDataset()
        >>> dataset.init(batch_size=1, thread_num=2, use_var=[])
        >>> dataset.update_settings(thread_num=3, fea_eval=True)
        >>> dataset.thread_num, dataset.fea_eval
        (3, True)
        """
        _refuse_unknown("update_settings", kwargs, _INIT + _DISTRIBUTED + _OWN)
        setters: dict[str, Callable[[Any], None]] = {
            "pipe_command": self._set_pipe_command,
            "batch_size": self._set_batch_size,
            "thread_num": self._set_thread,
            "use_var": self._set_use_var,
            "input_type": self._set_input_type,
            "download_cmd": self._set_download_cmd,
            "merge_size": self._set_merge_by_lineid,
            "parse_ins_id": self._set_parse_ins_id,
            "parse_content": self._set_parse_content,
            "fleet_send_batch_size": self._set_fleet_send_batch_size,
            "fleet_send_sleep_seconds": self._set_fleet_send_sleep_seconds,
            "data_feed_type": self._set_feed_type,
            "queue_num": self._set_queue_num,
        }
        for key, value in kwargs.items():
            if key in setters:
                setters[key](value)
        if "fs_name" in kwargs and "fs_ugi" in kwargs:
            self._set_hdfs_config(kwargs["fs_name"], kwargs["fs_ugi"])
        if kwargs.get("fea_eval"):
            self._set_fea_eval(kwargs.get("candidate_size", 10000), True)
        own = self._settings
        self._set_own(
            kwargs.get("skip_bad_lines", own.skip_bad_lines),
            kwargs.get("slot_names", own.slot_names),
            kwargs.get("seed", self._seed),
        )

    def _init_distributed_settings(self, **kwargs: Any) -> None:
        _refuse_unknown("_init_distributed_settings", kwargs, _DISTRIBUTED)
        self.update_settings(**kwargs)

    def load_into_memory(self, is_shuffle: bool = False) -> None:
        """Reads the files; `is_shuffle` shuffles the samples of this worker, too."""
        self._open().load()
        self._tell(self._data)
        _remember_for_pass(self)
        if is_shuffle:
            self.local_shuffle()

    def preload_into_memory(self, thread_num: int | None = None) -> None:
        """Begins to read the files, with `thread_num` readers, and returns at once."""
        self._open().preload(self.thread_num if thread_num is None else thread_num)

    def wait_preload_done(self) -> None:
        """Waits for what `preload_into_memory` began."""
        self._loaded("wait_preload_done").wait()
        self._tell(self._data)
        _remember_for_pass(self)

    def local_shuffle(self) -> None:
        """Shuffles the samples of this worker."""
        self._loaded("local_shuffle").local_shuffle(self._next_seed())

    def global_shuffle(self, fleet: Any = None, thread_num: int = 12) -> None:
        """Shuffles the samples of all workers, if `fleet` is given; else as `local_shuffle`.

        Each sample goes to a worker at random. `thread_num` is the number of threads in Paddle;
        here one is enough for what the network can carry.
        """
        data, seed = self._loaded("global_shuffle"), self._next_seed()
        size, rank = (1, 0) if fleet is None else (fleet.worker_num(), fleet.worker_index())
        exchange, end = (None, lambda: None) if size == 1 else _util(fleet)._exchange()
        if self._merge_size > 0:
            self._warn(*data.global_merge(exchange, rank, size, seed, self._merge_size))
        elif size > 1:
            data.global_shuffle(exchange, rank, size, seed)
        else:
            data.local_shuffle(seed)
        end()

    def _warn(self, dropped: int, reasons: list[str]) -> None:
        for reason in reasons:
            _log.warning(reason)
        if dropped:
            _log.warning(f"total drop ins num: {dropped}")

    def release_memory(self) -> None:
        """Gives back the memory of the samples."""
        if self._data is not None:
            self._data.release()
        self._data = None

    def get_memory_data_size(self, fleet: Any = None) -> Any:
        """How many samples this worker has; with `fleet`, how many all workers have."""
        return self._size(fleet)

    def get_shuffle_data_size(self, fleet: Any = None) -> Any:
        """How many samples there are after a shuffle: as `get_memory_data_size`.

        Samples are shuffled where they lie.
        """
        return self._size(fleet)

    def slots_shuffle(self, slots: list[str]) -> None:
        """Gives each sample values of another one in the named slots, to see what they are worth."""
        if not self.fea_eval:
            raise RuntimeError("`slots_shuffle` needs `update_settings(fea_eval=True)` before")
        self._loaded("slots_shuffle").slots_shuffle(sorted(set(slots)), self._next_seed())

    def set_date(self, date: str) -> None:
        """The day of the data, as `20211111`; kept for whoever asks, it changes nothing here."""
        if len(date) != 8 or not date.isdecimal():
            raise ValueError(f"`date` must be a day such as 20211111, not {date!r}")
        self._date = date

    def _set_use_ps_gpu(self, use_ps_gpu: bool) -> None:
        self.use_ps_gpu = bool(use_ps_gpu)

    def _set_feed_type(self, data_feed_type: str) -> None:
        if data_feed_type != self._feed:
            raise NotImplementedError(f"`data_feed_type` {data_feed_type!r} is not in this version")

    def _set_queue_num(self, queue_num: int) -> None:
        if not isinstance(queue_num, int):
            raise TypeError(f"`queue_num` must be a number, not {type(queue_num).__name__}")
        self.queue_num = queue_num if queue_num > 0 else None

    def _set_parse_ins_id(self, parse_ins_id: bool) -> None:
        self._settings.parse_ins_id = bool(parse_ins_id)

    def _set_parse_content(self, parse_content: bool) -> None:
        self._settings.parse_content = bool(parse_content)

    def _set_fleet_send_batch_size(self, fleet_send_batch_size: int = 1024) -> None:
        self.fleet_send_batch_size = fleet_send_batch_size

    def _set_fleet_send_sleep_seconds(self, fleet_send_sleep_seconds: int = 0) -> None:
        self.fleet_send_sleep_seconds = fleet_send_sleep_seconds

    def _set_merge_by_lineid(self, merge_size: int = 2) -> None:
        if not isinstance(merge_size, int):
            raise TypeError(f"`merge_size` must be a number, not {type(merge_size).__name__}")
        self._merge_size = merge_size
        if merge_size > 0:
            self._set_parse_ins_id(True)

    def _set_fea_eval(self, record_candidate_size: int, fea_eval: bool = True) -> None:
        self._candidate_size, self.fea_eval = record_candidate_size, bool(fea_eval)

    def _open(self) -> Any:
        self._data = _core.MemoryData(self._settings.use_var, self._settings.for_core())
        return self._data

    def _loaded(self, method: str) -> Any:
        if self._data is None:
            raise RuntimeError(f"`{method}` needs samples: call `load_into_memory` before")
        return self._data

    def _next_seed(self) -> int:
        self._shuffles += 1
        return self._seed + self._shuffles

    def _size(self, fleet: Any) -> Any:
        size = np.array([0 if self._data is None else len(self._data)])
        return (size if fleet is None else _util(fleet).all_reduce(size))[0]

    def _source(self) -> Any:
        data = self._loaded("train_from_dataset")
        data.set_batch_size(self._settings.batch_size)
        return data


def _some(paths: list[str]) -> str:
    """The first paths of a list, which may be long."""
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return ", ".join(f"`{path}`" for path in paths[:3]) + more


def _refuse_unknown(call: str, given: dict[str, Any], known: tuple[str, ...]) -> None:
    from ....static.settings import unknown_setting

    for key in given:
        if key not in known:
            raise TypeError(unknown_setting(call, key, dict.fromkeys(known)))


def _util(fleet: Any) -> Any:
    """What the workers of a job tell each other by, in both generations of `fleet`."""
    return fleet._util if hasattr(type(fleet), "all_reduce_worker") else fleet.util


def _fleet() -> Any:
    from ... import fleet

    return fleet


def _check_sample(variables: list[Any], sample: Any) -> None:
    if len(variables) != len(sample):
        raise ValueError(
            f"var length mismatch error: var_list = {len(variables)} vs data_generator ="
            f" {len(sample)}"
        )
    for variable, (name, values) in zip(variables, sample, strict=True):
        if len(values) == 0:
            raise ValueError(f"var length error: var {name}'s length in data_generator is 0")
        wanted, kind = (float, "float") if "float" in variable.dtype.name else (int, "int")
        if not all(isinstance(value, wanted) for value in values):
            raise TypeError(
                f"var dtype mismatch error: var name = {name}, var type in var_list = {kind}, "
                f"while var in data_generator contains non-{kind} value, which is {values} \n"
                "Please check if order of var_list and data_generator are aligned. \n"
                "Please check if var's type in data_generator is correct."
            )
