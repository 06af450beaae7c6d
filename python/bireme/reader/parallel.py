"""Reader decorators that work on several threads or processes.

Nothing hangs: a failing mapper or reader, a killed process and a consumer that walks away all end
every thread and process that the decorator has started.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .._channel import Channel, fill_in_thread
from .._names import set_public_names
from .decorator import Reader


def xmap_readers(
    mapper: Callable[[Any], Any],
    reader: Reader,
    process_num: int,
    buffer_size: int,
    order: bool = False,
) -> Reader:
    """Maps the samples of a reader on `process_num` threads, `buffer_size` samples ahead.

    With `order` the results come in the order of the samples, else as they are ready.

    >>> list(xmap_readers(lambda x: x * x, lambda: range(4), 2, 8, order=True)())
    [0, 1, 4, 9]
    """
    if process_num <= 0:
        raise ValueError(f"`process_num` must be a positive whole number, got {process_num}")

    def mapped() -> Iterator[Any]:
        # A sample takes a credit until it is yielded: this bounds what is in flight, also while
        # one slow sample holds up the ordered ones behind it.
        credits = threading.Semaphore(max(1, buffer_size) + process_num)
        todo, done = Channel(0), Channel(0)
        stopped = threading.Event()

        def number_samples() -> Iterator[tuple[int, Any]]:
            for item in enumerate(reader()):
                credits.acquire()
                if stopped.is_set():
                    return
                yield item

        fill_in_thread(todo, number_samples)
        _start_mappers(mapper, todo, done, process_num)
        waiting: dict[int, Any] = {}
        next_number = 0
        try:
            for number, result in done:
                if not order:
                    credits.release()
                    yield result
                    continue
                waiting[number] = result
                while next_number in waiting:
                    credits.release()
                    yield waiting.pop(next_number)
                    next_number += 1
        finally:
            stopped.set()
            credits.release()
            todo.close()
            done.close()

    return mapped


def _start_mappers(mapper: Callable, todo: Channel, done: Channel, count: int) -> None:
    running = [count]
    lock = threading.Lock()

    def run() -> None:
        try:
            for number, sample in todo:
                if not done.put((number, mapper(sample))):
                    return
        except BaseException as error:  # noqa: BLE001 - raised again by the consumer
            done.fail(error)
        with lock:
            running[0] -= 1
            if running[0] == 0:
                done.finish()

    for _ in range(count):
        threading.Thread(target=run, name="bireme-mapper", daemon=True).start()


def multiprocess_reader(
    readers: Sequence[Reader], use_pipe: bool = True, queue_size: int = 1000
) -> Reader:
    """Runs every reader in a process of its own, at most `queue_size` samples ahead in all.

    With `use_pipe` the readers take turns, else samples come as they are ready. The processes are
    forked, so readers may be closures; samples are pickled.

    >>> sorted(multiprocess_reader([lambda: [1, 2], lambda: [3, 4]])())
    [1, 2, 3, 4]
    """
    if not isinstance(readers, (list, tuple)) or not readers:
        raise ValueError("`readers` must be a list or tuple of at least one reader")
    if queue_size <= 0:
        raise ValueError(f"`queue_size` must be a positive whole number, got {queue_size}")

    def merged() -> Iterator[Any]:
        from . import _processes

        sources = _processes.start(readers, queue_size)
        try:
            yield from sources.in_turns() if use_pipe else sources.as_ready()
        finally:
            sources.stop()

    return merged


set_public_names(__name__)
