"""`spawn`: a function in several new processes of this machine, which form a job."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import queue
import secrets
import signal
import socket
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from .. import _core
from .communication.group import leave

_SECRET = "BIREME_JOB_SECRET"
_OPTIONS = ("start_method", "ips", "gpus", "xpus", "print_config", "backend")
_DEPRECATED = ("selected_devices", "started_port", "cluster_node_ips", "node_ip", "use_paddlecloud")
# How long a process may take to end when it is asked to.
_GRACE_SECONDS = 3.0


class MultiprocessContext:
    """The processes of a `spawn`.

    `return_queues[i].get()` is what the function returned in process i, once that has ended.
    """

    def __init__(self, processes: list[Any], pipes: list[Any], ports: list[socket.socket]) -> None:
        self.processes = processes
        self.return_queues: list[Any] = [queue.SimpleQueue() for _ in processes]
        self.error_queues: list[Any] = [queue.SimpleQueue() for _ in processes]
        self._running = dict(enumerate(processes))
        self._pipes = dict(enumerate(pipes))
        # When, and with what traceback, processes failed.
        self._errors: dict[int, tuple[float, str]] = {}
        # Nobody else is given these ports as long as they are held.
        self._ports = ports

    def join(self, timeout: float | None = None) -> bool:
        """Waits until some process ends; whether all have. Raises when one has failed.

        The others are ended then. The exception has the traceback of the first that failed.
        """
        if not self._running:
            return True
        waited = [process.sentinel for process in self._running.values()]
        ready = multiprocessing.connection.wait([*waited, *self._pipes.values()], timeout)
        self._read(ready)
        for index, process in list(self._running.items()):
            if process.sentinel not in ready:
                continue
            process.join()
            del self._running[index]
            self._read(self._pipes.values())
            if process.exitcode != 0:
                self._fail(index)
        if not self._running:
            self._release()
        return not self._running

    def pids(self) -> list[int]:
        """The numbers that the system gave to the processes."""
        return [process.pid for process in self.processes]

    def _read(self, ready: Any) -> None:
        """Takes what processes have reported."""
        for index, pipe in list(self._pipes.items()):
            if pipe not in ready or not pipe.poll():
                continue
            try:
                kind, when, content = pipe.recv()
            except (EOFError, OSError):
                del self._pipes[index]
                continue
            if kind == "error":
                self._errors[index] = (when, content)
                self.error_queues[index].put(content)
            else:
                self.return_queues[index].put(content)

    def _fail(self, index: int) -> None:
        codes = {at: process.exitcode for at, process in enumerate(self.processes)}
        self.end()
        self._read(self._pipes.values())
        killed = [at for at, code in codes.items() if code is not None and code < 0]
        # One that was killed could not say why; the others fail because it is gone.
        if killed:
            name = signal.Signals(-codes[killed[0]]).name
            raise RuntimeError(f"Process {killed[0]} terminated with signal {name}.")
        if not self._errors:
            code = codes[index]
            raise RuntimeError(f"Process {index} terminated with exit code {code}.")
        first = min(self._errors, key=lambda at: self._errors[at][0])
        line = "-" * 46
        raise RuntimeError(
            f"\n\n{line}\nProcess {first} terminated with the following error:\n{line}\n\n"
            f"{self._errors[first][1]}"
        )

    def end(self) -> None:
        """Ends the processes that still run: asks them to, and after a while does not ask."""
        for process in self._running.values():
            process.terminate()
        until = time.monotonic() + _GRACE_SECONDS
        for process in self._running.values():
            process.join(max(until - time.monotonic(), 0))
            if process.is_alive():
                process.kill()
                process.join()
        self._running.clear()
        self._release()

    def _release(self) -> None:
        for port in self._ports:
            port.close()
        self._ports = []


def spawn(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = -1,
    join: bool = True,
    daemon: bool = False,
    **options: Any,
) -> MultiprocessContext:
    """Calls `func(*args)` in `nprocs` new processes, by default one for each core, and waits.

    With `gpus="0,1"` there is by default one for each of these GPUs, which is the process's
    `set_device("gpu")`; more processes share them in turns.
    With `join=False` it returns at once; `join()` of what it returns waits. `func` must be
    importable by its name: scripts call `spawn` under `if __name__ == "__main__":`.
    """
    _check_options(options)
    if not callable(func):
        raise TypeError(f"`func` must be a function, not {type(func).__name__}")
    gpus = _chosen_gpus(options)
    count = (len(gpus) or os.cpu_count() or 1) if nprocs == -1 else nprocs
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ValueError(f"`nprocs` must be a number from 1 on, or -1, got {nprocs!r}")
    if count < len(gpus):
        raise ValueError(f"`gpus` names {len(gpus)} GPUs, and `nprocs` is {count}: name fewer")
    ports = [_held_port() for _ in range(count)]
    environments = _environments(ports)
    for rank, environment in enumerate(environments if gpus else ()):
        environment["FLAGS_selected_gpus"] = gpus[rank % len(gpus)]
    if options.get("print_config"):
        for environment in environments:
            shown = (f"{n}={value}" for n, value in environment.items() if n != _SECRET)
            print(" ".join(shown))
    start = multiprocessing.get_context(options.get("start_method") or "spawn")
    processes: list[Any] = []
    pipes: list[Any] = []
    context = None
    try:
        for environment in environments:
            here, there = start.Pipe(duplex=False)
            process = start.Process(target=_run, args=(func, tuple(args), there, environment))
            process.daemon = daemon
            process.start()
            there.close()
            processes.append(process)
            pipes.append(here)
        context = MultiprocessContext(processes, pipes, ports)
        while join and not context.join():
            pass
    except BaseException:
        # Ctrl-C among others: no process is left behind.
        (context or MultiprocessContext(processes, pipes, ports)).end()
        raise
    return context


def _check_options(options: dict[str, Any]) -> None:
    for name in options:
        if name in _DEPRECATED:
            warnings.warn(
                f"The config option ({name}) of `paddle.distributed.spawn` is deprecated. Please"
                " use the latest config options stated in the `spawn` API documentation.",
                DeprecationWarning,
                stacklevel=3,
            )
        elif name not in _OPTIONS:
            raise ValueError(
                f"The config option ({name}) of `paddle.distributed.spawn` is not supported."
            )
    if options.get("backend") not in (None, "auto", "gloo"):
        raise ValueError(f"`backend` {options['backend']!r} is not in this version: leave it out")
    if options.get("xpus") is not None:
        raise NotImplementedError("`xpus`: processes run on CPUs and GPUs in this version")
    for name in ("ips", "cluster_node_ips", "node_ip"):
        if options.get(name) not in (None, "127.0.0.1", "localhost"):
            raise ValueError(f"`{name}`: `spawn` is for one machine, use `fleetrun` for several")
    for name in ("started_port", "use_paddlecloud"):
        if options.get(name) is not None:
            raise NotImplementedError(f"`{name}`: `spawn` finds free ports by itself")


def _chosen_gpus(options: dict[str, Any]) -> list[str]:
    """The numbers of the GPUs that the options name.

    >>> _chosen_gpus({"gpus": "0, 2"})
    ['0', '2']
    >>> _chosen_gpus({})
    []
    """
    chosen = options.get("gpus", options.get("selected_devices"))
    if chosen is None:
        return []
    listed = chosen if isinstance(chosen, (list, tuple)) else str(chosen).split(",")
    numbers = [str(number).strip() for number in listed]
    if not all(number.isdigit() for number in numbers):
        raise ValueError(f"`gpus` must be numbers of GPUs such as '0,1', not {chosen!r}")
    return numbers


def _held_port() -> socket.socket:
    """A port that the system gives to nobody else, and that a child can still listen on."""
    held = socket.socket()
    # Bound but not listening: another socket with the same option may bind it too and listen.
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held


def _environments(ports: list[socket.socket]) -> list[dict[str, str]]:
    endpoints = [f"127.0.0.1:{port.getsockname()[1]}" for port in ports]
    threads = max((os.cpu_count() or 1) // len(ports), 1)
    # Other users of this machine must not be able to take part.
    secret = secrets.token_hex(16)
    environments = []
    for rank, endpoint in enumerate(endpoints):
        environment = {
            "PADDLE_TRAINER_ID": str(rank),
            "PADDLE_TRAINERS_NUM": str(len(ports)),
            "PADDLE_CURRENT_ENDPOINT": endpoint,
            "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
            "PADDLE_RANK_IN_NODE": str(rank),
            "TRAINING_ROLE": "TRAINER",
        }
        if not os.environ.get(_SECRET, "").strip():
            environment[_SECRET] = secret
        if not {"BIREME_NUM_THREADS", "OMP_NUM_THREADS"} & os.environ.keys():
            environment["BIREME_NUM_THREADS"] = str(threads)
        environments.append(environment)
    return environments


def _run(func: Any, args: tuple[Any, ...], report: Any, environment: dict[str, str]) -> None:
    """What a new process does."""
    os.environ.update(environment)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    try:
        result = func(*args)
        if result is not None:
            report.send(("result", time.time(), result))
    except KeyboardInterrupt:
        # The parent has got it too, and says so.
        raise SystemExit(130) from None
    except Exception as error:  # noqa: BLE001 (the parent raises it)
        report.send(("error", time.time(), traceback.format_exc()))
        # The others need not find out by themselves.
        _core.ProcessGroup.abort_all(f"{type(error).__name__}: {error}")
        raise SystemExit(1) from None
    finally:
        report.close()
    # A child does not run what is registered for the end of the interpreter.
    leave()


def _end_with(parent: Any) -> None:
    """Ends this process when its parent is gone: nobody would wait for it."""
    parent.join()
    os._exit(1)
