"""The console commands: `bireme`, and `fleetrun` as far as one process goes."""

from __future__ import annotations

import sys

USAGE = """\
usage: fleetrun [--worker_num 1] [--nproc_per_node 1] SCRIPT [ARGUMENTS]

Runs a training script in which `import paddle` means Bireme. A job is one process so far:
options that ask for more workers, servers or machines are refused."""

# Options of Paddle's launcher that count processes or machines, with what they may be here.
_COUNTS = {
    "--nproc_per_node": 1,
    "--nnodes": 1,
    "--worker_num": 1,
    "--trainer_num": 1,
    "--server_num": 0,
    "--heter_worker_num": 0,
    "--coordinator_num": 0,
}
# Options that name machines or devices, separated by commas.
_LISTS = ("--gpus", "--devices", "--ips", "--workers", "--trainers", "--servers")


def main() -> int:
    """Runs the `bireme` command with the arguments of this process; returns its exit code.

    >>> from bireme._cli import main
    >>> callable(main)
    True
    """
    from . import _core

    return _core.main(["bireme", *sys.argv[1:]], _command())


def _command() -> list[str]:
    """What runs the `bireme` command in another process: this interpreter, with our search path."""
    code = f"import sys; sys.path[:] = {sys.path!r}; from bireme._cli import main; sys.exit(main())"
    return [sys.executable, "-c", code]


def fleetrun(arguments: list[str] | None = None) -> int:
    """Runs a training script with `paddle` meaning Bireme.

    One process only for now: whatever asks for more is refused with exit code 2.

    >>> from bireme._cli import fleetrun
    >>> fleetrun(["--worker_num=2", "train.py"])
    2
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        option, _, value = rest.pop(0).partition("=")
        if option in ("-h", "--help"):
            print(USAGE)
            return 0
        if not value:
            value = rest.pop(0) if rest else ""
        problem = _refuse(option, value)
        if problem:
            print(f"fleetrun: {problem}", file=sys.stderr)
            return 2
    if not rest:
        print(f"fleetrun: no script was given\n{USAGE}", file=sys.stderr)
        return 2
    from ._run import run_script

    run_script(rest[0], rest[1:])
    return 0


def _refuse(option: str, value: str) -> str | None:
    """Why an option of the launcher cannot be honoured, or None."""
    if option in _COUNTS:
        wanted, possible = value, str(_COUNTS[option])
        if wanted == possible:
            return None
        return (
            f"`{option}={wanted}` asks for more than one process, which is not available yet: "
            f"only `{option}={possible}` is"
        )
    if option in _LISTS:
        if len(value.split(",")) == 1 and option in ("--gpus", "--devices", "--ips"):
            return None
        return f"`{option}={value}` asks for more than one process, which is not available yet"
    return f"unknown option `{option}`\n{USAGE}"
