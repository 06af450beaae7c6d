"""Tries an installed wheel: the package, its alias and its commands, and nothing of a checkout.

Run by `cargo xtask wheel` with the Python of a bare environment.
"""

import os
import subprocess
import sys
import tempfile

PROGRAM = """
import sys
import paddle
import paddle.nn.functional as F
import bireme

assert paddle is bireme and F is bireme.nn.functional
print(sys.argv[1:], paddle.to_tensor([1.0, 2.0]).sum().item())
"""


def main() -> None:
    import bireme

    # Trains a little, eagerly and by a program.
    bireme.utils.run_check()
    for name in ("py.typed", "_core.pyi"):
        if not os.path.exists(os.path.join(os.path.dirname(bireme.__file__), name)):
            sys.exit(f"the wheel has no `{name}`: type checkers would see nothing")
    programs = os.path.dirname(sys.executable)
    expect(
        [os.path.join(programs, "bireme"), "--version"], "bireme " + bireme.version.bireme_version
    )
    expect([os.path.join(programs, "fleetrun"), "--help"], "Starts the processes of a training job")
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "script.py")
        with open(script, "w") as file:
            file.write(PROGRAM)
        expect([sys.executable, "-m", "bireme", script, "a", "b"], "['a', 'b'] 3.0")


def expect(command: list[str], beginning: str) -> None:
    """Runs a command that must succeed and print what is expected."""
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if result.returncode != 0 or not result.stdout.startswith(beginning):
        sys.exit(f"{command} gave {result}, but should have printed `{beginning}`")


if __name__ == "__main__":
    main()
