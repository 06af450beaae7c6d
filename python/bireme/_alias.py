"""`import paddle` as another spelling of `import bireme`.

A finder in front of Python's own answers for `paddle` and everything below it with the very
modules of Bireme: `paddle.nn is bireme.nn`, so classes, state and pickles are the same under both
names.

Processes that a script starts get the alias through `PYTHONPATH`: a folder that holds nothing but
a module `paddle`, which installs the finder and steps aside. Nothing is put into site-packages,
unless the user asks for it (see `_alias_install`).
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from types import CodeType, ModuleType
from typing import Any

from ._missing import missing_module

# A folder that holds nothing but the module `paddle`.
SHIM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_shim")


def install_alias() -> bool:
    """Makes `import paddle` mean Bireme from now on, in this process; says whether it does.

    Real Paddle keeps its name where it is installed, unless the environment says
    `BIREME_ALIAS=1`. `BIREME_ALIAS=0` leaves the name alone everywhere.

    >>> import bireme
    >>> if bireme.install_alias():
    ...     import paddle
    ...     print(paddle is bireme)
    True
    """
    wanted = os.environ.get("BIREME_ALIAS", "")
    if wanted not in ("", "0", "1"):
        raise ValueError(f"`BIREME_ALIAS` is `{wanted}`, but must be 0, 1 or not set")
    if wanted == "0":
        return False
    if any(isinstance(finder, AliasFinder) for finder in sys.meta_path):
        return True
    if wanted != "1" and real_paddle_is_installed():
        return False
    loaded = sys.modules.get("paddle")
    if loaded is not None and not _is_shim(loaded):
        raise ImportError(
            "`paddle` is imported already, and is not Bireme: call `bireme.install_alias()` first"
        )
    sys.meta_path.insert(0, AliasFinder())
    return True


def export_alias() -> None:
    """Gives the alias to Python processes that are started from here."""
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if SHIM not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([SHIM, *filter(None, paths)])
    if SHIM not in sys.path:
        # Processes of `multiprocessing` get a copy of our path instead of the variable; the first
        # place is the script's own.
        sys.path.insert(1, SHIM)


class AliasFinder:
    """Finds `paddle` and its submodules in Bireme."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname != "paddle" and not fullname.startswith("paddle."):
            return None
        name = "bireme" + fullname.removeprefix("paddle")
        # The parents are imported already: Python imports from the left.
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            raise missing_module(name)
        # Loaders are known by their methods: `importlib.abc` would only make the import slower.
        loader: Any = AliasLoader(name)
        return ModuleSpec(fullname, loader)


class AliasLoader:
    """Answers with a module that exists, and leaves it as it is."""

    def __init__(self, name: str):
        self.name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.name)
        self.spec = module.__spec__
        return module

    def get_code(self, fullname: str) -> CodeType | None:
        """What `python -m paddle.distributed.launch` runs: the code behind the alias."""
        spec = importlib.util.find_spec(self.name)
        loader: Any = spec.loader if spec is not None else None
        return loader.get_code(self.name) if hasattr(loader, "get_code") else None

    def is_package(self, fullname: str) -> bool:
        """Whether it has submodules."""
        spec = importlib.util.find_spec(self.name)
        return spec is not None and spec.submodule_search_locations is not None

    def exec_module(self, module: ModuleType) -> None:
        # The import system has just overwritten it with the alias's.
        module.__spec__ = self.spec


def real_paddle_is_installed() -> bool:
    """Whether `paddle` is something else than Bireme's alias here."""
    loaded = sys.modules.get("paddle")
    if loaded is not None and not _is_shim(loaded):
        return True
    places = [place for place in sys.path if os.path.abspath(place or ".") != SHIM]
    spec = PathFinder.find_spec("paddle", places)
    # A folder called `paddle` without code (a data folder, say) is not Paddle.
    return spec is not None and spec.origin is not None


def _is_shim(module: ModuleType) -> bool:
    return os.path.dirname(os.path.abspath(getattr(module, "__file__", None) or "")) == SHIM
