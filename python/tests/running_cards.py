"""Scripts on the emulated card: it is one for a whole process, so each script has a process."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# The hidden side of the emulated machine, for scripts that bring about faults.
CONTROL = """
import ctypes, os
_machine = ctypes.CDLL(os.path.join(os.environ["BIREME_CUDA_LIBRARIES"], "libcuda.so"))

def control(name, *numbers):
    getattr(_machine, f"card_{name}")(*map(ctypes.c_uint64, numbers))
"""


def emulator() -> str:
    """The folder of the emulated card's libraries; skips the test where they were not built."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = target.glob("debug/build/bireme-emulator-*/out/libcuda.so")
    newest = max(built, key=lambda library: library.stat().st_mtime, default=None)
    if newest is None:
        pytest.skip("there is no emulated card: `cargo build -p bireme-emulator` makes it")
    return str(newest.parent)


def on_card(script: str, folder=None, **environment: str) -> subprocess.CompletedProcess:
    """Runs a script in a process that sees an emulated card; its end is the caller's to judge."""
    return subprocess.run(
        [sys.executable, "-c", CONTROL + textwrap.dedent(script)],
        check=False,
        cwd=folder,
        env={**os.environ, "BIREME_CUDA_LIBRARIES": emulator(), **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def printed(script: str, folder=None, **environment: str) -> str:
    """What a script that must not fail prints on the emulated card."""
    done = on_card(script, folder, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def last_line(script: str, folder=None, **environment: str) -> str:
    """The last line of the error of a script that must fail on the emulated card."""
    done = on_card(script, folder, **environment)
    assert done.returncode != 0, done.stdout
    return done.stderr.strip().splitlines()[-1]
