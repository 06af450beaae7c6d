"""`python -m bireme install-paddle-alias`: `import paddle` means Bireme in all of an environment.

What it installs is one line in a `.pth` file: the folder that holds nothing but a module `paddle`
becomes the last place where Python looks. So no code runs when Python starts, real Paddle goes
first if it is installed later, and the line means nothing once Bireme is gone.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig

from ._alias import SHIM, real_paddle_is_installed

NAME = "bireme_paddle_alias.pth"
COMMAND = "python -m bireme install-paddle-alias"


def main(arguments: list[str]) -> int:
    """Installs the alias, or removes it with `--remove`; returns the exit code.

    >>> main(["--all"])
    2
    """
    if arguments == ["--remove"]:
        return remove()
    if arguments:
        print(f"bireme: usage: {COMMAND} [--remove]", file=sys.stderr)
        return 2
    return install()


def install() -> int:
    """Writes the file, unless real Paddle is installed; returns the exit code."""
    if real_paddle_is_installed():
        print(
            "bireme: real Paddle is installed here, and keeps its name: `python -m bireme SCRIPT`"
            " with BIREME_ALIAS=1 runs a script with Bireme all the same",
            file=sys.stderr,
        )
        return 1
    problem: OSError | None = None
    for folder in _folders():
        path = _path(folder)
        try:
            os.makedirs(folder, exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(SHIM + "\n")
        except OSError as error:
            problem = error
            continue
        print(
            f"wrote {path}\n"
            f"`import paddle` and `python -m paddle...` mean Bireme for {sys.executable} from now on,"
            f" unless real Paddle is installed; `{COMMAND} --remove` undoes it"
        )
        return 0
    print(
        f"bireme: no folder of this Python can be written to ({problem}): use a virtual environment,"
        " or `export PYTHONPATH=$(python -m bireme --alias-path)`",
        file=sys.stderr,
    )
    return 1


def remove() -> int:
    """Removes the file; returns the exit code."""
    found = [path for path in map(_path, _folders()) if os.path.isfile(path)]
    for path in found:
        try:
            os.remove(path)
        except OSError as error:
            print(f"bireme: cannot remove {path}: {error}", file=sys.stderr)
            return 1
        print(f"removed {path}")
    if not found:
        print("the alias is not installed: there is nothing to remove")
    return 0


def _folders() -> list[str]:
    """Where Python looks for `.pth` files: those of the environment, then the user's."""
    folders = [sysconfig.get_paths()["purelib"]]
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    return folders


def _path(folder: str) -> str:
    return os.path.join(folder, NAME)
