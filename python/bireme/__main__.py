"""`python -m bireme script.py [arguments]`: runs a script written for Paddle, unchanged.

Also `python -m bireme -m module [arguments]`. `import paddle` means Bireme in the script and in
the processes that it starts.
"""

from __future__ import annotations

import sys

USAGE = """\
usage: python -m bireme SCRIPT [ARGUMENTS]
       python -m bireme -m MODULE [ARGUMENTS]
       python -m bireme install-paddle-alias [--remove]
       python -m bireme --alias-path

Runs a script in which `import paddle` means Bireme, when real Paddle is not installed.
`install-paddle-alias` lets plain `python -m paddle.distributed.launch` and scripts with
`import paddle` find Bireme in this environment, by one `.pth` file; `--remove` undoes it.
`--alias-path` prints a folder that does the same in PYTHONPATH.

environment:
  BIREME_ALIAS=1        `paddle` means Bireme even when real Paddle is installed
  BIREME_ALIAS=0        `paddle` is left alone
  BIREME_DEVICE=cpu     scripts that ask for a GPU run on the CPU, with one warning
  BIREME_NUM_THREADS=N  threads of an executor (default OMP_NUM_THREADS, else the cores)"""


def main(arguments: list[str]) -> int:
    """Runs what the arguments name; returns only for help (0) and wrong usage (2).

    >>> from bireme.__main__ import main
    >>> main(["-m"])
    2
    """
    from ._run import run_module, run_script

    first = arguments[0] if arguments else ""
    if first in ("-h", "--help"):
        print(USAGE)
    elif first == "--alias-path":
        from ._alias import SHIM

        print(SHIM)
    elif first == "install-paddle-alias":
        from . import _alias_install

        return _alias_install.main(arguments[1:])
    elif first == "-m" and len(arguments) > 1:
        run_module(arguments[1], arguments[2:])
    elif first and not first.startswith("-"):
        run_script(first, arguments[1:])
    else:
        problem = (
            "`-m` needs the name of a module" if first == "-m" else f"unknown option `{first}`"
        )
        print(f"bireme: {problem}\n{USAGE}" if first else USAGE, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
