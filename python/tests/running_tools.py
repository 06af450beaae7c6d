"""Runs commands of PaddleRec's guides in a copy of the repository's tools and models."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import bireme

ROOT = Path(__file__).parents[2]
TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - INFO - "
COST = r"avg_reader_cost: [\d.]+ sec, avg_batch_cost: [\d.]+ sec, avg_samples: [\d.]+, "
COMMON = r"\*{14}common\.configs\*{10}"


def copied_checkout(tmp_path):
    """A copy of what the guide's commands name: they leave files behind."""
    copied = shutil.ignore_patterns("output_model_*", "__pycache__", "log")
    for part in ("tools", "models"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=copied)
    (tmp_path / "bin").mkdir()
    commands = {
        # No link: an interpreter does not know the environment that a link to it stands for.
        "python": "",
        "fleetrun": "-m bireme_launch",
        "bireme": "-c 'import sys; from bireme._cli import main; sys.exit(main())'",
    }
    for name, arguments in commands.items():
        command = tmp_path / "bin" / name
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {arguments} "$@"\n')
        command.chmod(0o755)
    return tmp_path


def run(checkout, command, folder=".", ends=0, **environment):
    """Runs a command line in a folder of the checkout; returns what was printed."""
    package = Path(bireme.__file__).parents[1]
    known = {
        "PATH": f"{checkout / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(package), str(package / "bireme" / "_shim")]),
        "OMP_NUM_THREADS": "1",
    }
    result = subprocess.run(
        ["sh", "-c", command],
        cwd=checkout / folder,
        env={**os.environ, **known, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == ends, result.stdout
    return result.stdout


def logs(checkout, folder="."):
    """All that the processes of a job logged."""
    files = sorted((checkout / folder / "log").glob("*log*"))
    return "\n".join(file.read_text() for file in files)


def check_lines(text, *patterns):
    """That lines of these forms come in this order."""
    at = 0
    for pattern in patterns:
        found = re.compile(pattern).search(text, at)
        assert found, f"no `{pattern}` in\n{text[at:]}"
        at = found.end()
