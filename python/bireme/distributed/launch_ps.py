"""`python -m paddle.distributed.launch_ps script.py`: `fleetrun` with the defaults of Paddle 1.x.

Two servers and two workers unless told otherwise, and logs in `logs`.
"""

from __future__ import annotations

from .._cli import fleetrun
from .._missing import missing_names

__all__ = ["launch"]


def launch(arguments: list[str] | None = None) -> int:
    """Starts the job of a command line, this process's own unless given; returns the exit code.

    >>> from bireme.distributed.launch_ps import launch
    >>> launch(["--worker_num=0", "train.py"])
    2
    """
    return fleetrun(arguments, "python -m paddle.distributed.launch_ps", old_defaults=True)


__getattr__ = missing_names(__name__)

if __name__ == "__main__":
    import sys

    sys.exit(launch())
