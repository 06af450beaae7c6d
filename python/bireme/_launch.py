"""How a job is started from Python: who runs a script, and who runs the `bireme` command.

Uses nothing of Bireme but the core that it is given: `fleetrun` loads this file alone, because
importing the package costs more than starting a job.
"""

from __future__ import annotations

import sys
from typing import Any


def launch(
    core: Any, arguments: list[str], program: str = "fleetrun", *, old_defaults: bool = False
) -> int:
    """Starts the job of a command line and waits for its end; returns the exit code."""
    return core.launch([program, *arguments], bireme_command(), script_command(), old_defaults)


def script_command() -> list[str]:
    """What runs a script in another process, with `import paddle` meaning Bireme."""
    return [sys.executable, "-u", "-m", "bireme"]


def bireme_command() -> list[str]:
    """What runs the `bireme` command in another process: this interpreter, with our search path."""
    code = f"import sys; sys.path[:] = {sys.path!r}; from bireme._cli import main; sys.exit(main())"
    return [sys.executable, "-c", code]
