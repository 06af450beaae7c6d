"""Starts the processes of a job on the loopback, and waits for them in bounded time."""

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

SCRIPTS = Path(__file__).parent / "jobs"
# For all processes of a job together with their imports, on a busy machine.
JOB_SECONDS = 180


# Bound, so that the system gives their ports to nobody else; a job's process can still listen.
HELD = []


def free_ports(count):
    """Ports on which nobody listens, kept for this process as long as it runs."""
    sockets = [socket.socket() for _ in range(count)]
    for held in sockets:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
    HELD.extend(sockets)
    return [held.getsockname()[1] for held in sockets]


def free_ports_in_a_row(count):
    """The first of so many ports, one after the other, as `free_ports` has them."""
    for _ in range(100):
        first = free_ports(1)[0]
        others = [socket.socket() for _ in range(1, count)]
        try:
            for port, held in enumerate(others, first + 1):
                held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                held.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            for held in others:
                held.close()
            continue
        HELD.extend(others)
        return first
    raise OSError(f"there are no {count} free ports in a row")


class Job:
    """Running processes by name; those that still run at the end of the `with` are killed."""

    def __init__(self, folder):
        self.folder = folder
        self.processes = {}

    def start(self, name, script, environment):
        """Starts a script: the name of one in `jobs`, or its text."""
        if "\n" in script:
            path = self.folder / f"{name}.py"
            path.write_text(script)
        else:
            path = SCRIPTS / script
        known = [str(SCRIPTS), os.environ["PYTHONPATH"]]
        environment = {"PYTHONPATH": os.pathsep.join(known), "OMP_NUM_THREADS": "1", **environment}
        # To a file: a pipe that nobody reads would stop a process that prints much.
        with open(self.folder / f"{name}.log", "w") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "bireme", str(path)],
                cwd=self.folder,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        return self.processes[name]

    def output(self, name):
        """What a process has printed so far."""
        return (self.folder / f"{name}.log").read_text()

    def wait_for(self, name, text, seconds=JOB_SECONDS):
        """Waits until a process has printed something; it must not end before."""
        end = time.monotonic() + seconds
        while text not in self.output(name):
            code = self.processes[name].poll()
            assert code is None, f"{name} ended with {code}:\n{self.output(name)}"
            assert time.monotonic() < end, f"{name} did not print `{text}`:\n{self.output(name)}"
            time.sleep(0.02)

    def ends(self, seconds=JOB_SECONDS):
        """How each process ended, once all have."""
        end = time.monotonic() + seconds
        for name, process in self.processes.items():
            try:
                process.wait(max(end - time.monotonic(), 0.01))
            except subprocess.TimeoutExpired:
                still = [n for n, p in self.processes.items() if p.poll() is None]
                said = "\n".join(f"--- {n}\n{self.output(n)}" for n in self.processes)
                raise AssertionError(f"after {seconds} s {still} still run, {name} first:\n{said}")
        return {name: process.returncode for name, process in self.processes.items()}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            process.kill()
            process.wait()


def roles(servers, trainers, ports=None):
    """The environments of a job's processes, by name: `server 0`, `trainer 0` and so on."""
    endpoints = [f"127.0.0.1:{port}" for port in ports or free_ports(servers)]
    common = {
        "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(endpoints),
        "PADDLE_TRAINERS_NUM": str(trainers),
    }
    environments = {}
    for at, endpoint in enumerate(endpoints):
        host, port = endpoint.split(":")
        own = {"TRAINING_ROLE": "PSERVER", "POD_IP": host, "PADDLE_PORT": port}
        environments[f"server {at}"] = {**common, **own, "PADDLE_PSERVER_ID": str(at)}
    for at in range(trainers):
        own = {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(at)}
        environments[f"trainer {at}"] = {**common, **own}
    return environments


def run_job(folder, script, environments, options=None, seconds=JOB_SECONDS):
    """Runs a job to its end; returns what the processes printed. All must end with 0."""
    options = {f"JOB_{name}": str(value) for name, value in (options or {}).items()}
    folder.mkdir(exist_ok=True)
    with Job(folder) as job:
        for name, environment in environments.items():
            job.start(name, script, {**environment, **options})
        ended = job.ends(seconds)
        outputs = {name: job.output(name) for name in environments}
    said = "\n".join(f"--- {name}\n{output}" for name, output in outputs.items())
    assert not any(ended.values()), f"{ended}\n{said}"
    return outputs


def losses(output):
    """The losses that a process printed."""
    return np.array([float(loss) for loss in re.findall(r"loss (-?[\d.]+|nan)", output)])


def trainers_mean(outputs):
    """The mean over trainers of each step's loss."""
    return np.mean([losses(o) for name, o in outputs.items() if name.startswith("trainer")], axis=0)
