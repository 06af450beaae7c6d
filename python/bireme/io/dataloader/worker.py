"""What runs inside a worker process of a `DataLoader`.

A worker answers every task with exactly one message, in order. It ends when its pipe ends, so it
can't outlive the parent, and leaves Ctrl-C to the parent.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ... import _core
from .fetcher import DRAINED
from .transfer import encode

BATCH, END, ERROR = range(3)
_GRACE_S = 1.0
_LARGEST_SEED = (1 << 63) - 1

_worker_info: WorkerInfo | None = None


class WorkerInfo(NamedTuple):
    """Which worker this is: `id` of `num_workers`, its copy of the data set, the common `seed`."""

    id: int
    num_workers: int
    dataset: Any
    seed: int


class Job(NamedTuple):
    """What a worker needs to know to do its work."""

    dataset: Any
    make_fetcher: Callable[[], Any]
    init_fn: Callable[[int], None] | None
    worker_id: int
    num_workers: int
    base_seed: int
    # Shared memory of `slots` equal parts, or None: batches then go through the pipe.
    memory: Any
    slots: int


def get_worker_info() -> WorkerInfo | None:
    """In a worker process of a `DataLoader` which one it is, elsewhere None.

    >>> from bireme.io import get_worker_info
    >>> get_worker_info() is None
    True
    """
    return _worker_info


def run(job: Job, pipe: Any, inherited: list[Any]) -> None:
    """The main function of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Other workers' pipes must end with the parent, not with this process.
    for other in inherited:
        other.close()
    tasks: queue.SimpleQueue = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(pipe, tasks), daemon=True).start()
    try:
        _serve(job, pipe, tasks)
    except (BrokenPipeError, ConnectionResetError):
        # The parent does not want the batch any more.
        return


def _receive(pipe: Any, tasks: queue.SimpleQueue) -> None:
    # Tasks are taken off the pipe at once: were both sides to wait for room in it, both would hang.
    task: Any = ()
    while task is not None:
        try:
            task = pipe.recv()
        except (EOFError, OSError):
            task = None
        tasks.put(task)
    # The main thread ends the process by itself unless it is busy in the user's code.
    time.sleep(_GRACE_S)
    sys.stdout.flush()
    os._exit(0)


def _serve(job: Job, pipe: Any, tasks: queue.SimpleQueue) -> None:
    fetcher: Any = None
    failure = _call(_start, job)
    sent = 0
    while (task := tasks.get()) is not None:
        epoch_starts, indices = task
        if epoch_starts or fetcher is None:
            fetcher, failure = _make(job, failure)
        message = failure or _call(fetcher.fetch, indices)
        failure = None
        slot = sent % job.slots
        sent += 1
        pipe.send_bytes(_encoded(job, message, slot))


def _start(job: Job) -> None:
    import random

    global _worker_info
    _worker_info = WorkerInfo(job.worker_id, job.num_workers, job.dataset, job.base_seed)
    random.seed(job.base_seed + job.worker_id)
    _core.seed((job.base_seed + job.worker_id) & _LARGEST_SEED)
    # Words as Paddle mixes them, so that the same seed draws the same numbers.
    words = [job.worker_id, job.base_seed & 0xFFFFFFFF, job.base_seed >> 32, 0]
    np.random.seed(np.random.SeedSequence(words).generate_state(4))
    if job.init_fn is not None:
        job.init_fn(job.worker_id)


def _make(job: Job, failure: Any) -> tuple[Any, Any]:
    made = _call(job.make_fetcher)
    if isinstance(made, _Failure):
        return None, failure or made
    return made, failure if isinstance(failure, _Failure) else None


class _Failure(NamedTuple):
    kind: type[BaseException]
    text: str


def _call(function: Callable, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except Exception as error:  # noqa: BLE001 - raised again in the parent
        return _Failure(type(error), traceback.format_exc())


def _encoded(job: Job, message: Any, slot: int) -> bytes:
    if message is DRAINED:
        return encode((END, None), None, 0, 0)
    if isinstance(message, _Failure):
        return _encoded_failure(message)
    try:
        return encode((BATCH, message), job.memory, slot, job.slots)
    except Exception as error:  # noqa: BLE001 - a batch that can't be pickled
        return _encoded_failure(_Failure(type(error), traceback.format_exc()))


def _encoded_failure(failure: _Failure) -> bytes:
    try:
        return encode((ERROR, (failure.kind, failure.text)), None, 0, 0)
    except Exception:  # noqa: BLE001 - a class defined inside a function can't be pickled
        return encode((ERROR, (RuntimeError, failure.text)), None, 0, 0)
