"""The parent's side of a `DataLoader` with worker processes.

Batch `k` is worker `k mod n`'s, so that batches come in order by reading each worker's pipe in
turn. A worker has at most `prefetch_factor` tasks; it gets the next one when a batch of it has been
copied out of shared memory, so the slot of that batch is free again.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing import connection
from typing import Any

import numpy as np

from ...reader._processes import describe_exit
from . import worker
from .transfer import decode, shared_memory

_JOIN_S = 2.0

# All pools of this process: a worker closes the pipes that it inherits from each of them, or the
# workers of one loader would keep those of another from noticing their end.
_live: weakref.WeakSet[Pool] = weakref.WeakSet()


class Pool:
    """Worker processes that make batches until they are closed."""

    def __init__(self, loader: Any, make_fetcher: Callable[[], Any]) -> None:
        self._count = loader.num_workers
        self._prefetch = loader.prefetch_factor
        self._timeout_s = loader.timeout
        self._pipes: list[Any] = []
        self._processes: list[Any] = []
        self._memories: list[Any] = []
        self._outstanding = [0] * self._count
        self._context = _context()
        self._owner = os.getpid()
        _live.add(self)
        # Drawn before the first batch of indices, as Paddle draws it.
        base_seed = int(np.random.randint(0, sys.maxsize))
        try:
            for worker_id in range(self._count):
                self._start(loader, make_fetcher, worker_id, base_seed)
        except BaseException:
            self.close()
            raise

    def batches(self, indices: Iterable[Any]) -> Iterator[Any]:
        """The batches of one epoch; what is left of an epoch that was broken off is dropped."""
        self._drop_outstanding()
        waiting: deque[int] = deque()
        tasks = iter(indices)
        live = set(range(self._count))
        fresh = set(live)
        for worker_id in list(range(self._count)) * self._prefetch:
            self._give(worker_id, tasks, fresh, waiting)
        while waiting:
            worker_id = waiting.popleft()
            kind, payload = self._take(worker_id)
            if kind == worker.ERROR:
                raise _failure(worker_id, *payload)
            if kind == worker.END:
                live.discard(worker_id)
                continue
            if worker_id in live:
                self._give(worker_id, tasks, fresh, waiting)
            yield payload

    def close(self) -> None:
        """Ends the workers: nicely, then by force."""
        for pipe in self._pipes:
            with suppress(OSError):
                pipe.send(None)
            pipe.close()
        deadline = time.monotonic() + _JOIN_S
        for process in self._processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        self._pipes, self._processes, self._memories = [], [], []

    def __del__(self) -> None:
        # A forked worker has a copy of this object, but not of its processes.
        if self._owner == os.getpid():
            self.close()

    def _start(self, loader: Any, make_fetcher: Callable, worker_id: int, seed: int) -> None:
        forked = self._context.get_start_method() == "fork"
        shared = loader.use_shared_memory and forked
        memory = shared_memory(self._prefetch) if shared else None
        ours, theirs = self._context.Pipe()
        job = worker.Job(
            dataset=loader.dataset,
            make_fetcher=make_fetcher,
            init_fn=loader.worker_init_fn,
            worker_id=worker_id,
            num_workers=self._count,
            base_seed=seed,
            memory=memory,
            slots=self._prefetch,
        )
        others = [pipe for pool in _live for pipe in pool._pipes]
        inherited = [*others, ours] if forked else []
        process = self._context.Process(target=worker.run, args=(job, theirs, inherited))
        process.daemon = True
        try:
            process.start()
        finally:
            # Only the worker may hold its end, or its death would not end the pipe.
            theirs.close()
        self._pipes.append(ours)
        self._processes.append(process)
        self._memories.append(memory)

    def _give(self, worker_id: int, tasks: Iterator, fresh: set[int], waiting: deque) -> None:
        try:
            indices = next(tasks)
        except StopIteration:
            return
        try:
            self._pipes[worker_id].send((worker_id in fresh, indices))
        except (BrokenPipeError, ConnectionResetError):
            raise self._death() from None
        fresh.discard(worker_id)
        self._outstanding[worker_id] += 1
        waiting.append(worker_id)

    def _take(self, worker_id: int) -> tuple[int, Any]:
        pipe = self._pipes[worker_id]
        if not pipe.poll():
            self._wait_for(worker_id)
        try:
            data = pipe.recv_bytes()
        except (EOFError, ConnectionResetError):
            raise self._death() from None
        self._outstanding[worker_id] -= 1
        return decode(data, self._memories[worker_id])

    def _wait_for(self, worker_id: int) -> None:
        # The death of any worker wakes us, not only of the one whose turn it is.
        sentinels = [process.sentinel for process in self._processes]
        pipe = self._pipes[worker_id]
        ready = connection.wait([pipe, *sentinels], self._timeout_s or None)
        if not ready:
            raise RuntimeError(
                f"no batch came from `DataLoader` worker {worker_id} (pid "
                f"{self._processes[worker_id].pid}) within the timeout of {self._timeout_s} s: "
                "is the data set's `__getitem__` stuck? give a larger `timeout`, or 0 for none"
            )
        if pipe not in ready:
            raise self._death()

    def _death(self) -> RuntimeError:
        ended = connection.wait([process.sentinel for process in self._processes], 1.0)
        for process in self._processes:
            # A sentinel is ready a moment before the exit code is.
            if process.sentinel in ended:
                process.join(1.0)
        dead = [
            f"worker {number} (pid {process.pid}) {describe_exit(process.exitcode)}"
            for number, process in enumerate(self._processes)
            if process.exitcode is not None
        ]
        return RuntimeError(
            f"`DataLoader` {'; '.join(dead) or 'a worker closed its pipe'}: a killed worker often "
            "means that memory ran out; fewer `num_workers` or smaller batches need less"
        )

    def _drop_outstanding(self) -> None:
        for worker_id in range(self._count):
            while self._outstanding[worker_id]:
                self._take(worker_id)


class _Verbatim(str):
    """Text that is shown as it is also by exceptions that show the `repr` of their argument."""

    def __repr__(self) -> str:
        return str(self)


def _failure(worker_id: int, kind: type[BaseException], text: str) -> BaseException:
    message = _Verbatim(
        f"`DataLoader` worker {worker_id} raised {kind.__name__}; its traceback:\n\n{text}"
    )
    try:
        return kind(message)
    except Exception:  # noqa: BLE001 - a class that wants other arguments
        return RuntimeError(message)


def _context() -> Any:
    methods = multiprocessing.get_all_start_methods()
    return multiprocessing.get_context("fork" if "fork" in methods else "spawn")
