"""Datasets as 1.x makes and sets them: `DatasetFactory`, and a setter for each setting."""

from __future__ import annotations

from typing import Any

from .._missing import missing_names
from ..distributed.fleet.dataset import dataset as _datasets

__all__ = ["DatasetBase", "DatasetFactory", "InMemoryDataset", "QueueDataset"]


class DatasetBase(_datasets.DatasetBase):
    """A dataset with a setter for each setting.

    >>> import bireme.fluid as fluid
    >>> dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
    >>> dataset.set_batch_size(128)
    >>> dataset.set_thread(12)
    >>> dataset.thread_num
    12
    """

    def set_pipe_command(self, pipe_command: str) -> None:
        """The command that makes lines of a file's content."""
        self._set_pipe_command(pipe_command)

    def set_batch_size(self, batch_size: int) -> None:
        """How many samples a batch has."""
        self._set_batch_size(batch_size)

    def set_thread(self, thread_num: int) -> None:
        """How many files are read at the same time."""
        self._set_thread(thread_num)

    def set_use_var(self, var_list: list[Any]) -> None:
        """The variables that a line feeds, in its order."""
        self._set_use_var(var_list)

    def set_input_type(self, input_type: int) -> None:
        """0: a line is a sample; 1: it is a batch."""
        self._set_input_type(input_type)

    def set_hdfs_config(self, fs_name: str, fs_ugi: str) -> None:
        """Where remote files would be; this version reads local ones."""
        self._set_hdfs_config(fs_name, fs_ugi)

    def set_download_cmd(self, download_cmd: str) -> None:
        """`cat`: files are read where they lie."""
        self._set_download_cmd(download_cmd)

    def desc(self) -> str:
        """The settings as Paddle's text of a data feed."""
        return self._desc()


class QueueDataset(DatasetBase, _datasets.QueueDataset):
    """Reads files while they are trained on.

    >>> import bireme.fluid as fluid
    >>> fluid.DatasetFactory().create_dataset("QueueDataset").local_shuffle()
    Traceback (most recent call last):
    ...
    NotImplementedError: QueueDataset does not support local shuffle, please use InMemoryDataset for local_shuffle
    """

    def local_shuffle(self) -> None:
        """Refused, as in Paddle: nothing is kept that could be shuffled."""
        raise NotImplementedError(
            "QueueDataset does not support local shuffle, "
            "please use InMemoryDataset for local_shuffle"
        )

    def global_shuffle(self, fleet: Any = None) -> None:
        """Refused, as in Paddle: nothing is kept that could be shuffled."""
        raise NotImplementedError(
            "QueueDataset does not support global shuffle, "
            "please use InMemoryDataset for global_shuffle"
        )


class InMemoryDataset(DatasetBase, _datasets.InMemoryDataset):
    """Reads files into memory before they are trained on.

    >>> import bireme.fluid as fluid
    >>> dataset = fluid.DatasetFactory().create_dataset("InMemoryDataset")
    >>> dataset.set_thread(2)
    >>> dataset.thread_num
    2
    """

    def set_queue_num(self, queue_num: int) -> None:
        """Training threads take batches from the samples themselves: it changes nothing."""
        self._set_queue_num(queue_num)

    def set_feed_type(self, data_feed_type: str) -> None:
        """`MultiSlotInMemoryDataFeed`, the one there is."""
        self._set_feed_type(data_feed_type)

    def set_parse_ins_id(self, parse_ins_id: bool) -> None:
        """Whether lines begin with an id of the sample."""
        self._set_parse_ins_id(parse_ins_id)

    def set_parse_content(self, parse_content: bool) -> None:
        """Whether lines have content before their slots."""
        self._set_parse_content(parse_content)

    def set_fleet_send_batch_size(self, fleet_send_batch_size: int = 1024) -> None:
        """Says nothing here: samples for another worker travel at once."""
        self._set_fleet_send_batch_size(fleet_send_batch_size)

    def set_fleet_send_sleep_seconds(self, fleet_send_sleep_seconds: int = 0) -> None:
        """Says nothing here, see `set_fleet_send_batch_size`."""
        self._set_fleet_send_sleep_seconds(fleet_send_sleep_seconds)

    def set_merge_by_lineid(self, merge_size: int = 2) -> None:
        """Has `global_shuffle` merge so many samples with the same `ins_id`."""
        self._set_merge_by_lineid(merge_size)

    def set_fea_eval(self, record_candidate_size: int, fea_eval: bool = True) -> None:
        """Allows `slots_shuffle`."""
        self._set_fea_eval(record_candidate_size, fea_eval)


_KINDS = {"QueueDataset": QueueDataset, "InMemoryDataset": InMemoryDataset}


class DatasetFactory:
    """Makes a dataset by the name of its class.

    >>> import bireme.fluid as fluid
    >>> fluid.DatasetFactory().create_dataset("Dataset")
    Traceback (most recent call last):
    ...
    ValueError: datafeed class Dataset does not exist
    """

    def create_dataset(self, datafeed_class: str = "QueueDataset") -> DatasetBase:
        """A `QueueDataset` or an `InMemoryDataset`."""
        if datafeed_class not in _KINDS:
            raise ValueError(f"datafeed class {datafeed_class} does not exist")
        return _KINDS[datafeed_class]()


__getattr__ = missing_names(__name__)
