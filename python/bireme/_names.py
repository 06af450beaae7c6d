"""Names of the package: what `__all__` holds, and what is fetched only when it is first used."""

from __future__ import annotations

import sys

_SUBPACKAGES = (
    "amp",
    "autograd",
    "base",
    "callbacks",
    "dataset",
    "device",
    "distributed",
    "distribution",
    "fluid",
    "geometric",
    "hapi",
    "incubate",
    "inference",
    "io",
    "jit",
    "linalg",
    "metric",
    "nn",
    "optimizer",
    "reader",
    "regularizer",
    "static",
    "utils",
    "v2",
    "version",
    "vision",
)

#: Fetched when they are first used, so that importing the package is quick.
LAZY = {
    **{name: f"bireme.{name}" for name in _SUBPACKAGES},
    "DataParallel": "bireme.distributed:DataParallel",
    "Model": "bireme.hapi:Model",
    "flops": "bireme.hapi:flops",
    "summary": "bireme.hapi:summary",
    "ResourceExhaustedError": "bireme._core:ResourceExhaustedError",
}


def set_public_names(module: str, *, also: str = "", but: str = "") -> None:
    """Sets `__all__` of a module: the functions and classes it defines; of a package, its parts' too.

    So a name is spelled where it is defined and nowhere else. `also` and `but` hold names to add
    and to leave out, with blanks between them. It is no assignment in the module, as type checkers
    take one that they cannot compute for an empty list, and know nothing of the names then.
    """
    here = sys.modules[module]
    parts = f"{module}." if hasattr(here, "__path__") else None

    def belongs(name: str, value: object) -> bool:
        home = getattr(value, "__module__", None)
        ours = home == module or bool(parts and isinstance(home, str) and home.startswith(parts))
        return ours and name[0] != "_" and callable(value)

    found = {name for name, value in vars(here).items() if belongs(name, value)}
    vars(here)["__all__"] = sorted({*found, *also.split()} - {*but.split()})
