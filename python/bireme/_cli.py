"""The console commands: `bireme`, and `fleetrun` for those who have the package already."""

from __future__ import annotations

import sys

from ._launch import bireme_command, launch, script_command


def main() -> int:
    """Runs the `bireme` command with the arguments of this process; returns its exit code.

    >>> from bireme._cli import main
    >>> callable(main)
    True
    """
    from . import _core

    return _core.main(["bireme", *sys.argv[1:]], bireme_command(), script_command())


def fleetrun(
    arguments: list[str] | None = None, program: str = "fleetrun", *, old_defaults: bool = False
) -> int:
    """Starts the processes of a training job, watches them, and returns the exit code.

    The arguments are those of the command line, this process's own unless given.
    `old_defaults` are those of Paddle's `launch_ps`: two servers, two workers, logs in `logs`.

    >>> from bireme._cli import fleetrun
    >>> fleetrun(["--worker_num=two", "train.py"])
    2
    """
    from . import _core

    given = sys.argv[1:] if arguments is None else list(arguments)
    return launch(_core, given, program, old_defaults=old_defaults)
