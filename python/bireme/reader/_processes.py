"""The processes behind `multiprocess_reader`: one pipe each, the end of the pipe is the end of it.

A process sends `(kind, payload)` messages: a sample, the end, or the text of a traceback. A pipe
that breaks off without one of the last two belongs to a process that has died.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
import traceback
from collections.abc import Iterator, Sequence
from multiprocessing import connection
from typing import Any

_SAMPLE, _END, _ERROR = range(3)


def start(readers: Sequence, queue_size: int) -> Sources:
    """Forks a process for every reader."""
    if "fork" not in multiprocessing.get_all_start_methods():
        raise NotImplementedError(
            "`multiprocess_reader` needs a system that can fork: use `xmap_readers` instead"
        )
    context = multiprocessing.get_context("fork")
    sources = Sources()
    for reader in readers:
        # Each reader has credits of its own: shared ones could all be held by readers whose turn
        # has not come.
        credits = context.Semaphore(max(1, queue_size // len(readers)))
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(
            target=_run, args=(reader, sender, credits, sources.receivers()), daemon=True
        )
        process.start()
        # Only the child may hold the sending end, or its death would not end the pipe.
        sender.close()
        sources.add(receiver, process, credits)
    return sources


class Sources:
    """The running readers and the pipes that they write to."""

    def __init__(self) -> None:
        self._processes: dict[Any, Any] = {}
        self._credits: dict[Any, Any] = {}
        self._all: list[Any] = []

    def add(self, receiver: Any, process: Any, credits: Any) -> None:
        """Takes over a started process, the receiving end of its pipe and its credits."""
        self._processes[receiver] = process
        self._credits[receiver] = credits
        self._all.append(process)

    def receivers(self) -> list[Any]:
        """The receiving ends of the readers that have not ended."""
        return list(self._processes)

    def in_turns(self) -> Iterator[Any]:
        """One sample of each reader, again and again."""
        while self._processes:
            for receiver in self.receivers():
                yield from self._receive(receiver)

    def as_ready(self) -> Iterator[Any]:
        """Samples as they arrive."""
        while self._processes:
            for receiver in connection.wait(self.receivers()):
                yield from self._receive(receiver)

    def stop(self) -> None:
        """Ends the processes that still run."""
        for receiver in self.receivers():
            receiver.close()
        for process in self._all:
            process.terminate()
        for process in self._all:
            process.join()

    def _receive(self, receiver: Any) -> Iterator[Any]:
        try:
            kind, payload = receiver.recv()
        except EOFError:
            process = self._processes.pop(receiver)
            process.join()
            raise RuntimeError(
                f"a process of `multiprocess_reader` (pid {process.pid}) "
                f"{describe_exit(process.exitcode)} before its reader had ended"
            ) from None
        if kind == _SAMPLE:
            self._credits[receiver].release()
            yield payload
        elif kind == _END:
            del self._processes[receiver]
            receiver.close()
        else:
            raise ValueError(f"a reader of `multiprocess_reader` failed:\n{payload}")


def describe_exit(code: int | None) -> str:
    """Says in words how a process ended.

    >>> describe_exit(-9)
    'was killed by signal SIGKILL (9)'
    >>> describe_exit(3)
    'exited with code 3'
    """
    if code is not None and code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = "unknown"
        return f"was killed by signal {name} ({-code})"
    return f"exited with code {code}"


def _run(reader: Any, sender: Any, credits: Any, inherited: list[Any]) -> None:
    # Ctrl-C reaches the whole process group; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for receiver in inherited:
        receiver.close()
    threading.Thread(target=exit_with_parent, daemon=True).start()
    try:
        for sample in reader():
            if sample is None:
                raise ValueError("a reader of `multiprocess_reader` yielded `None` as a sample")
            credits.acquire()
            sender.send((_SAMPLE, sample))
        sender.send((_END, None))
    except BrokenPipeError:
        return
    except BaseException:  # noqa: BLE001 - its text is raised in the parent
        sender.send((_ERROR, traceback.format_exc()))


def exit_with_parent() -> None:
    """Waits for the parent process to end, then ends this one at once."""
    import os

    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
