"""The `fleetrun` command, apart from the package `bireme` so that it starts at once.

A module in the package would import all of it first. Here the core and one file are loaded from
where the package lies, and nothing else.
"""

from __future__ import annotations

import sys
from types import ModuleType

__all__ = ["main"]


def main() -> int:
    """Runs `fleetrun` with the arguments of this process; returns its exit code."""
    from importlib.util import find_spec

    package = find_spec("bireme")
    if package is None or not package.submodule_search_locations:
        sys.exit("fleetrun: the package `bireme` is not installed beside this command")
    folder = package.submodule_search_locations[0]
    core = _load("bireme._core", folder)
    return _load("bireme._launch", folder).launch(core, sys.argv[1:])


def _load(name: str, folder: str) -> ModuleType:
    """Loads a module of the package without the package."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec(name, [folder])
    if spec is None or spec.loader is None:
        sys.exit(f"fleetrun: `{name}` is missing in {folder}: install Bireme again")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
