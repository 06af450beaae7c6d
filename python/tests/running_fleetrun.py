"""Starts jobs with `fleetrun`, and looks at their processes."""

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

from running_jobs import JOB_SECONDS, SCRIPTS

# By this variable a job's processes are known, whoever their parents are.
MARK = "BIREME_TEST_MARK"


class Fleetrun:
    """A job that runs; what is left of it at the end of the `with` is killed."""

    def __init__(self, folder, *arguments, command=("-m", "bireme_launch"), **variables):
        self.folder, self.mark = Path(folder), uuid.uuid4().hex
        known = os.pathsep.join([str(SCRIPTS), os.environ["PYTHONPATH"]])
        environment = {**os.environ, "PYTHONPATH": known, "CUDA_VISIBLE_DEVICES": "", **variables}
        self.folder.mkdir(exist_ok=True)
        with open(self.folder / "said", "w") as said:
            self.launcher = subprocess.Popen(
                [sys.executable, *command, *map(str, arguments)],
                cwd=folder,
                env={**environment, MARK: self.mark},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
            )

    def said(self):
        """What the launcher has said so far."""
        return (self.folder / "said").read_text()

    def log(self, name):
        """What a process has printed so far."""
        path = self.folder / "log" / name
        return path.read_text() if path.exists() else ""

    def logs(self):
        """All that was said, for messages of tests."""
        names = sorted(path.name for path in (self.folder / "log").glob("*log.*"))
        return "\n".join([self.said(), *(f"--- {name}\n{self.log(name)}" for name in names)])

    def wait_for(self, name, text, count=1, seconds=JOB_SECONDS):
        """Waits until a process has printed something so many times."""
        end = time.monotonic() + seconds
        while self.log(name).count(text) < count:
            assert self.launcher.poll() is None, self.logs()
            assert time.monotonic() < end, f"no `{text}` in {name}:\n{self.logs()}"
            time.sleep(0.02)

    def end(self, seconds=JOB_SECONDS):
        """The exit code, once the launcher has ended."""
        try:
            return self.launcher.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds} s:\n{self.logs()}") from None

    def processes(self):
        """The numbers and environments of the job's processes that run."""
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == self.launcher.pid:
                continue
            try:
                pairs = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
                is_dead = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
            except OSError:
                continue
            environment = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
            if environment.get(MARK) == self.mark and not is_dead:
                found[int(entry.name)] = environment
        return found

    def of_role(self, role, rank):
        """The process with this role and number."""
        for pid, environment in self.processes().items():
            if environment.get("TRAINING_ROLE") != role:
                continue
            if role == "TRAINER" and environment["PADDLE_TRAINER_ID"] == str(rank):
                return pid
            lists = {
                "PSERVER": "PADDLE_PSERVERS_IP_PORT_LIST",
                "HETER_TRAINER": "PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST",
            }
            if role in lists:
                own = f"{environment['POD_IP']}:{environment['PADDLE_PORT']}"
                if environment[lists[role]].split(",").index(own) == rank:
                    return pid
        raise AssertionError(f"no {role} {rank} runs:\n{self.logs()}")

    def kill(self, role, rank):
        os.kill(self.of_role(role, rank), signal.SIGKILL)

    def assert_nobody_is_left(self, seconds=20):
        """Fails if a process of the job still runs then."""
        end = time.monotonic() + seconds
        while left := self.processes():
            assert time.monotonic() < end, f"{sorted(left)} still run:\n{self.logs()}"
            time.sleep(0.02)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.launcher.kill()
        self.launcher.wait()
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)


def run_fleetrun(folder, *arguments, **variables):
    """Runs a job that must end well; returns it, at its end."""
    with Fleetrun(folder, *arguments, **variables) as job:
        assert job.end() == 0, job.logs()
    return job
