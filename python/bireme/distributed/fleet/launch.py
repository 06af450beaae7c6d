"""`python -m paddle.distributed.fleet.launch script.py`: the same command as `fleetrun`."""

from __future__ import annotations

from ..._cli import fleetrun as launch
from ..._missing import missing_names

__all__ = ["launch"]

__getattr__ = missing_names(__name__)

if __name__ == "__main__":
    import sys

    sys.exit(launch(program="python -m paddle.distributed.fleet.launch"))
