"""Machines on one table: network namespaces with addresses of their own, on a switch between them.

Each machine has its own network, processes, name and shared memory; only files are common. The
switch is a bridge in a namespace of its own, so nothing of the real machine's network changes.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from cable import SlowCable

SUBNET = "10.78.0"
# The second of two, as the first one also asks who has the address.
ROUND_TRIP = """
import socket, sys, time
for _ in range(2):
    start = time.monotonic()
    socket.socket().connect_ex((sys.argv[1], 1))
print(time.monotonic() - start)
"""


def ip(*arguments, check=True):
    """Runs `ip`; returns whether it succeeded."""
    done = subprocess.run(["ip", *arguments], check=False, capture_output=True, text=True)
    if check and done.returncode:
        raise RuntimeError(f"`ip {' '.join(arguments)}`: {done.stderr.strip()}")
    return done.returncode == 0


def missing():
    """What the machine lacks for these tests; none if nothing."""
    if not sys.platform.startswith("linux"):
        return "network namespaces are Linux's"
    if os.geteuid() != 0:
        return "needs root"
    for tool in ("ip", "tc", "unshare"):
        if not shutil.which(tool):
            return f"`{tool}` is not installed"
    probe = f"bireme-probe-{os.getpid()}"
    if not ip("netns", "add", probe, check=False):
        return "network namespaces are not allowed here"
    fits = ip("-n", probe, "link", "add", "b0", "type", "bridge", check=False)
    fits = fits and ip("-n", probe, "link", "add", "v0", "type", "veth", check=False)
    ip("netns", "del", probe)
    return None if fits else "the kernel has no bridges or virtual cables"


class Network:
    """Some machines and the switch between them, for the time of a `with`."""

    def __init__(self, folder, count=3):
        self.folder = Path(folder)
        self.prefix = f"bireme-{os.getpid()}"
        self.switch = f"{self.prefix}-switch"
        self.hosts = [Host(self, number) for number in range(1, count + 1)]

    def __enter__(self):
        ip("netns", "add", self.switch)
        ip("-n", self.switch, "link", "add", "bridge", "type", "bridge", "forward_delay", "0")
        ip("-n", self.switch, "link", "set", "bridge", "up")
        for host in self.hosts:
            host.plug_in()
        return self

    def __exit__(self, *_):
        for host in self.hosts:
            for running in host.running:
                running.power_off()
            if host.cable:
                host.cable.close()
            ip("netns", "del", host.space, check=False)
        ip("netns", "del", self.switch, check=False)


class Host:
    """One machine."""

    def __init__(self, network, number):
        self.network = network
        self.number = number
        self.name = f"host{number}"
        self.address = f"{SUBNET}.{number}"
        self.space = f"{network.prefix}-{self.name}"
        self.port = f"port{number}"
        self.folder = network.folder / self.name
        self.running = []
        self.cable = None

    def plug_in(self):
        switch = self.network.switch
        ip("netns", "add", self.space)
        ip("-n", self.space, "link", "set", "lo", "up")
        cable = ["type", "veth", "peer", "name", "eth0", "netns", self.space]
        ip("-n", switch, "link", "add", self.port, *cable)
        ip("-n", switch, "link", "set", self.port, "master", "bridge", "up")
        self.add_address(self.address)
        ip("-n", self.space, "link", "set", "eth0", "up")

    def add_address(self, address):
        ip("-n", self.space, "addr", "add", f"{address}/24", "dev", "eth0")

    def cut(self):
        """Pulls the cable."""
        ip("-n", self.network.switch, "link", "set", self.port, "down")

    def slow_down(self, rate=4_000_000, delay=0.04):
        """A slow cable (bits a second, seconds one way); returns what it was made of."""
        ends = [(self.space, "eth0"), (self.network.switch, self.port)]
        arguments = ["delay", f"{delay}s", "rate", f"{rate}bit"]
        if all(netem(space, device, arguments) for space, device in ends):
            return f"netem, {rate / 1e6:g} Mbit/s, {delay * 1e3:g} ms"
        ip("-n", self.space, "link", "del", "eth0")
        names = [f"bireme{os.getpid() % 100000}{end}" for end in "ab"]
        self.cable = SlowCable(names, rate, delay)
        for name, (space, device) in zip(names, ends):
            ip("link", "set", name, "netns", space, "name", device)
        ip("-n", self.network.switch, "link", "set", self.port, "master", "bridge", "up")
        self.add_address(self.address)
        ip("-n", self.space, "link", "set", "eth0", "up")
        self.cable.start()
        return f"a cable in user space, {rate / 1e6:g} Mbit/s, {delay * 1e3:g} ms"

    def round_trip(self, other):
        """Seconds to another machine and back: a port where nobody listens answers at once."""
        command = ["ip", "netns", "exec", self.space, sys.executable, "-c", ROUND_TRIP]
        done = subprocess.run([*command, other.address], check=True, capture_output=True, text=True)
        return float(done.stdout)

    def start(self, command, environment=None, folder=None):
        """Starts a program on this machine; its output is collected."""
        self.folder.mkdir(parents=True, exist_ok=True)
        running = Running(self, command, environment or {}, folder or self.folder)
        self.running.append(running)
        return running


def netem(space, device, arguments):
    command = ["tc", "-n", space, "qdisc", "replace", "dev", device, "root", "netem", *arguments]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


class Running:
    """A program on a machine."""

    def __init__(self, host, command, environment, folder):
        self.host = host
        self.path = folder / f"output{len(host.running)}.txt"
        temporary = host.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        machine = ["ip", "netns", "exec", host.space, "unshare", "--mount", "--uts", "--ipc"]
        machine += ["--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c"]
        # The shell is the machine's first process, and the program its child.
        machine += [
            f'hostname {host.name}; mount -t tmpfs none /dev/shm; "$@"; exit $?',
            "machine",
        ]
        with open(self.path, "w") as output:
            self.process = subprocess.Popen(
                [*machine, *command],
                cwd=folder,
                env={**os.environ, "TMPDIR": str(temporary), **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def text(self):
        return self.path.read_text(errors="replace")

    def logs(self):
        """The logs of this machine's processes, by their file names."""
        folder = self.path.parent / "log"
        names = sorted(folder.glob("*log.*")) if folder.exists() else []
        return {name.name: name.read_text(errors="replace") for name in names}

    def wait_for_log(self, name, text, seconds):
        """Waits until a process of this machine has written something."""
        end = time.monotonic() + seconds
        while text not in self.logs().get(name, ""):
            assert self.process.poll() is None, f"{self.host.name} ended before `{text}`"
            assert time.monotonic() < end, f"{self.host.name}: no `{text}` within {seconds} s"
            time.sleep(0.02)

    def wait(self, seconds):
        """The exit code; fails when the program does not end in time."""
        try:
            return self.process.wait(max(seconds, 0.01))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.host.name} did not end within {seconds:.0f} s") from None

    def stop(self):
        """Asks the program to end, as `kill` on its machine would."""
        shell = child_of(self.process.pid)
        os.kill(child_of(shell), signal.SIGTERM)

    def power_off(self):
        """Ends the machine as a whole, without a word to anybody."""
        self.process.kill()
        self.process.wait()


def child_of(process):
    """The first child of a process."""
    return int(Path(f"/proc/{process}/task/{process}/children").read_text().split()[0])
