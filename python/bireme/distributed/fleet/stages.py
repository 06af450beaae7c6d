"""Stages of a job with heter workers: who runs which, by the environment or by a script."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import Any

from .. import environment

DEVICES = ("cpu", "gpu", "xpu")


def given_stages(endpoints: Any) -> tuple[tuple[str, ...], ...]:
    """What a script says: one list for one stage, or a list for each.

    >>> given_stages(["127.0.0.1:1", "127.0.0.1:2"])
    (('127.0.0.1:1', '127.0.0.1:2'),)
    >>> given_stages([["127.0.0.1:1"], ["127.0.0.1:2"]])
    (('127.0.0.1:1',), ('127.0.0.1:2',))
    """
    from .role import checked_endpoints

    if not endpoints:
        return ()
    lists = endpoints if isinstance(endpoints[0], (list, tuple)) else [endpoints]
    stages = tuple(checked_endpoints("heter_worker_endpoints", stage) for stage in lists)
    checked_endpoints("heter_worker_endpoints", [place for stage in stages for place in stage])
    return stages


def place_of(index: int, stages: Sequence[Sequence[str]]) -> tuple[int, int]:
    """Stage (from 1) and number there of heter worker `index` of all stages.

    >>> place_of(2, [["a:1", "a:2"], ["a:3"]])
    (3, 0)
    """
    for number, stage in enumerate(stages, 2):
        if index < len(stage):
            return number, index
        index -= len(stage)
    raise ValueError(f"there is no heter worker of that number in {len(stages)} stages")


def environment_device() -> str:
    """The device of this heter worker, as the launcher says.

    >>> environment_device()
    'cpu'
    """
    device = environment.text("HETER_DEVICE_TYPE", "cpu")
    if device not in DEVICES:
        raise ValueError("HETER_DEVICE_TYPE should be cpu,gpu or xpu")
    if device == "xpu":
        _say_cpu(device)
    return device


@functools.cache
def _say_cpu(device: str) -> None:
    """Said once: that a stage runs elsewhere than its job asks for."""
    line = f"HETER_DEVICE_TYPE is {device}, but this stage runs on the CPU\n"
    sys.stderr.write(line)
    sys.stderr.flush()
