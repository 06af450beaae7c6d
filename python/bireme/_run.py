"""Runs a script or module as `__main__` with the alias, as Python itself would run it.

The script must not notice us: its `__main__` module is the real one (pickling and multiprocessing
look there), its arguments and search path are those of `python script.py`, and tracebacks begin
with its own frames.
"""

from __future__ import annotations

import builtins
import os
import sys
from types import CodeType, ModuleType, TracebackType
from typing import Any

from ._alias import AliasLoader, export_alias, install_alias


def run_script(path: str, arguments: list[str]) -> None:
    """Runs the script at `path`, with the folder it lies in as first place to import from."""
    if not os.path.isfile(path):
        sys.exit(f"bireme: there is no script `{path}`")
    from importlib.machinery import SourceFileLoader

    # As Python does it: `__file__` is absolute, and links are followed for the folder only.
    _prepare([path, *arguments], os.path.dirname(os.path.realpath(path)))
    _hide_our_frames()
    path = os.path.abspath(path)
    loader = SourceFileLoader("__main__", path)
    code = loader.source_to_code(loader.get_data(path), path)
    module = _fresh_main(__file__=path, __loader__=loader, __package__=None)
    _execute(code, module)


def run_module(name: str, arguments: list[str]) -> None:
    """Runs a module by its name, with the current folder as first place to import from."""
    _prepare([name, *arguments], os.getcwd())
    from importlib.util import find_spec

    try:
        spec = find_spec(name)
        if spec is not None and isinstance(spec.loader, AliasLoader):
            # What can be run is the module behind the alias.
            name = spec.loader.name
            spec = find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = find_spec(f"{name}.__main__")
    except ModuleNotFoundError as error:
        sys.exit(f"bireme: cannot run module `{name}`: {error}")
    loader: Any = spec.loader if spec is not None else None
    code = loader.get_code(spec.name) if spec is not None and loader else None
    if spec is None or code is None:
        sys.exit(f"bireme: there is no module `{name}` that could be run")
    sys.argv[0] = spec.origin or name
    _hide_our_frames()
    module = _fresh_main(
        __file__=spec.origin, __loader__=spec.loader, __package__=spec.parent, __spec__=spec
    )
    _execute(code, module)


def _prepare(argv: list[str], folder: str) -> None:
    sys.argv[:] = argv
    # `python -m bireme` put its current folder there, `fleetrun` the folder of the command; with
    # -P and -I Python adds no folder, and neither do we.
    if not (getattr(sys.flags, "safe_path", False) or sys.flags.isolated):
        sys.path[0] = folder
    try:
        installed = install_alias()
    except ValueError as error:
        sys.exit(f"bireme: {error}")
    if installed:
        export_alias()
    elif os.environ.get("BIREME_ALIAS") != "0":
        print(
            "bireme: real Paddle is installed, and `import paddle` means it; "
            "set BIREME_ALIAS=1 to have it mean Bireme",
            file=sys.stderr,
        )


def _fresh_main(**attributes: object) -> ModuleType:
    module = ModuleType("__main__")
    # Python gives a script no spec; multiprocessing then finds it by `__file__`.
    module.__dict__.update({"__builtins__": builtins, "__spec__": None, "__cached__": None})
    module.__dict__.update(attributes)
    sys.modules["__main__"] = module
    return module


def _execute(code: CodeType, module: ModuleType) -> None:
    exec(code, module.__dict__)  # noqa: S102 (running a script is what this is for)


def _hide_our_frames() -> None:
    """Errors of the script end the process as ever, but are shown from its own frames on."""
    previous = sys.excepthook

    def show(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        # Before ours lie those of the command; behind them Python's own, while it compiles.
        first, frame = traceback, traceback
        while frame is not None:
            first = frame.tb_next if frame.tb_frame.f_code.co_filename == __file__ else first
            frame = frame.tb_next
        while first is not None and first.tb_frame.f_code.co_filename.startswith("<frozen "):
            first = first.tb_next
        error.__traceback__ = first
        previous(kind, error, first)

    sys.excepthook = show
