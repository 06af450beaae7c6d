"""What `fleetrun` shows on a terminal: lines that pass, above lines that stay."""

import fcntl
import os
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

from running_jobs import JOB_SECONDS, SCRIPTS

TOKENS = re.compile(rb"\x1b\[(\d*)([A-Za-z])|\r*\n|\r|[^\x1b\r\n]+|\x1b")


class Terminal:
    """A terminal that breaks long lines anew when its width changes, as most do.

    It knows the few sequences that are needed, and that they hit whole lines: a cursor that goes
    up to the middle of a line would leave a part of it, or take one too much.
    """

    def __init__(self, width):
        self.master, self.slave = os.openpty()
        self.lines, self.at, self.is_at_start, self.raw = [""], 0, True, b""
        self.widths = []
        self.drawings = 0
        self.resize(width)

    def resize(self, width):
        # What is on its way was made for the width of before.
        self.widths = [width, *self.widths[:1]]
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))

    def line_above(self, rows, width):
        """The line at whose beginning a cursor is that goes up so many rows; None inside a line."""
        at, left = len(self.lines), rows + 1
        while left > 0 and at > 0:
            at -= 1
            left -= max(1, -(-len(self.lines[at]) // width))
        return at if left == 0 else None

    def text(self):
        return "\n".join(self.lines)

    def read_until(self, condition, process):
        """Reads what the job writes until something is to be seen; at the end of the job, all."""
        end = time.monotonic() + JOB_SECONDS
        while not condition(self):
            assert time.monotonic() < end, self.text()
            ready, _, _ = select.select([self.master], [], [], 0.1)
            if ready:
                self.feed(os.read(self.master, 1 << 16))
            elif process.poll() is not None:
                return

    def feed(self, data):
        # A sequence may come in two parts.
        data, self.raw = self.raw + data, b""
        begun = re.search(rb"(\x1b\[?\d*|\r+|[\x80-\xff]{1,3})\Z", data)
        if begun:
            data, self.raw = data[: begun.start()], begun[0]
        for token in TOKENS.finditer(data):
            self.take(token)

    def take(self, token):
        if token[2] == b"A":
            assert self.is_at_start and self.at == len(self.lines) - 1
            found = [self.line_above(int(token[1]), width) for width in self.widths]
            found = [line for line in found if line is not None]
            assert found, f"the cursor is in the middle of a line:\n{self.text()}"
            self.at = found[0]
        elif token[2] == b"J":
            assert self.is_at_start and not token[1]
            del self.lines[self.at + 1 :]
            self.lines[self.at] = ""
            self.drawings += 1
        elif token[0].endswith(b"\n"):
            assert self.at == len(self.lines) - 1, "written above lines that stay"
            self.lines.append("")
            self.at, self.is_at_start = self.at + 1, True
        elif token[0] == b"\r":
            self.is_at_start = True
        else:
            assert b"\x1b" not in token[0], f"what is {token[0]!r}?"
            assert self.at == len(self.lines) - 1, "written above lines that stay"
            text = token[0].decode()
            self.lines[self.at] = text if self.is_at_start else self.lines[self.at] + text
            self.is_at_start = False


def test_a_line_for_each_role_stays_below_the_output(tmp_path):
    terminal = Terminal(100)
    known = os.pathsep.join([str(SCRIPTS), os.environ["PYTHONPATH"]])
    script = Path(__file__).parent / "jobs" / "restarts.py"
    process = subprocess.Popen(
        [sys.executable, "-m", "bireme_launch", "--server_num=1", "--worker_num=2", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": known, "TERM": "xterm", "JOB_MODE": "sync"},
        stdin=subprocess.DEVNULL,
        stdout=terminal.slave,
        stderr=terminal.slave,
    )
    try:
        terminal.read_until(lambda seen: "] pauses" in seen.text(), process)
        stays = re.compile(r"servers +1 running +\S+ \w+\nworkers +2 training +steps? \d+.* MiB\Z")
        terminal.read_until(lambda seen: stays.search(seen.text()), process)
        assert stays.search(terminal.text()), terminal.text()
        # Narrower than the lines, then wider again.
        for width in (30, 20, 120):
            terminal.resize(width)
            drawings = terminal.drawings
            terminal.read_until(lambda seen, old=drawings: seen.drawings > old + 1, process)
            below = [line for line in terminal.lines if re.match("servers |workers ", line)]
            assert len(below) == 2 and below == terminal.lines[-2:], terminal.text()
            assert all(len(line) < width for line in below), below
        (tmp_path / "go").touch()
        terminal.read_until(lambda _: False, process)
        assert process.wait() == 0, terminal.text()
    finally:
        process.kill()
        process.wait()
    assert not [line for line in terminal.lines if re.match("servers |workers ", line)]
    for step in range(1, 31):
        assert terminal.text().count(f"[worker 0] step {step} loss ") == 1, terminal.text()
    assert terminal.text().rstrip().endswith("Local processes completed.")
