"""`PSGPU`: the passes of a GPUBox trainer, by Paddle's names."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

_log = logging.getLogger("bireme.gpubox")


class PSGPU:
    """The passes of this process's GPUBox job.

    A pass is what the last `InMemoryDataset` that was loaded holds: `begin_pass` brings the rows of
    its keys onto the card, `end_pass` gives the servers what was trained. Which slots are keys, and
    how wide rows are, the program says; `set_slot_vector` is compared with it. A `QueueDataset` has
    no passes: its keys are given rows as it is trained, and `end_pass` gives the servers the rest.

    >>> import bireme as paddle
    >>> passes = paddle.framework.core.PSGPU()
    >>> passes.set_slot_vector([1, 2, 3])
    >>> passes.set_slot_dim_vector([8, 8])
    Traceback (most recent call last):
    ValueError: there are 2 sizes for 3 slots: `set_slot_dim_vector` takes one for each slot
    """

    def __init__(self) -> None:
        self._slots: list[int] | None = None
        self._device: int | None = None

    def set_slot_vector(self, slots: Sequence[int]) -> None:
        """The slots whose values are keys, by number."""
        self._slots = [int(slot) for slot in slots]

    def set_slot_dim_vector(self, sizes: Sequence[int]) -> None:
        """The size of each slot's rows; those of the program count."""
        self._check_length("set_slot_dim_vector", sizes)

    def set_slot_offset_vector(self, offsets: Sequence[int]) -> None:
        """Where each slot's rows begin; they lie one behind the other here."""
        self._check_length("set_slot_offset_vector", offsets)

    def init_gpu_ps(self, devices: Sequence[int]) -> None:
        """The card that rows are brought to: the one that the executor trains on."""
        devices = [int(device) for device in devices]
        if len(devices) != 1:
            raise NotImplementedError(
                f"a worker of GPUBox trains on one card, and {len(devices)} are named ({devices}):"
                " start a worker for each card (`fleetrun --worker_num`)"
            )
        self._device = devices[0]

    def begin_pass(self) -> None:
        """Brings the rows of the keys that the dataset holds; it must be loaded."""
        from ..distributed import fleet
        from ..distributed.fleet.dataset import dataset

        loaded = dataset.loaded_for_pass()
        if loaded is None:
            raise RuntimeError(
                "there is no data for a pass: call `load_into_memory` of an `InMemoryDataset` before"
                " (a `QueueDataset` is trained without passes)"
            )
        runtime = fleet._job._runtime_handle()
        self._check_slots(runtime.main)
        runtime.begin_pass(loaded, self._device)

    def end_pass(self) -> None:
        """Gives the servers what the pass has trained."""
        from ..distributed import fleet

        said = fleet._job._runtime_handle().end_pass()
        if said:
            _log.info(said)

    def finalize(self) -> None:
        """Ends the passes: the servers have all that was trained."""
        self.end_pass()

    def _check_length(self, method: str, values: Sequence[int]) -> None:
        slots = self._slots
        if slots is not None and len(values) != len(slots):
            raise ValueError(
                f"there are {len(values)} sizes for {len(slots)} slots: `{method}` takes one for each"
                " slot"
            )

    def _check_slots(self, program: Any) -> None:
        tables = [op for op in program.global_block().ops if op.type == "pass_table"]
        feeds = {name for op in tables for name in op.input("Ids")}
        if self._slots is None or not all(name.isdecimal() for name in feeds):
            return
        named = {str(slot) for slot in self._slots}
        if named != feeds:
            missing, other = sorted(feeds - named, key=int), sorted(named - feeds, key=int)
            raise ValueError(
                "`set_slot_vector` must name the slots whose rows the program looks up: it lacks"
                f" {missing or 'none'}, and {other or 'none'} of it are looked up nowhere"
            )
