"""Prints where signatures of Bireme and of Paddle differ: `signatures.py paddle-python`.

Runs itself under both interpreters: the one that runs it has Bireme, the one that is named has
Paddle. Public functions, classes and their methods are compared by the names, order and defaults
of their parameters; type hints are not.
"""

import importlib
import inspect
import json
import subprocess
import sys

MODULES = (
    ".",
    "base",
    "device",
    "distributed",
    "distributed.fleet",
    "distribution",
    "geometric",
    "hapi",
    "incubate",
    "inference",
    "io",
    "jit",
    "linalg",
    "metric",
    "nn",
    "nn.functional",
    "nn.initializer",
    "nn.utils",
    "optimizer",
    "optimizer.lr",
    "reader",
    "regularizer",
    "static",
    "static.nn",
    "tensor",
    "utils",
    "utils.unique_name",
    "vision",
    "vision.datasets",
    "vision.transforms",
)

# Defaults of these kinds are compared by value; others, which are objects of the package, by class.
PLAIN = (type(None), bool, int, float, str, tuple, list, dict)


def parameters(value, drop=0):
    """The parameters of a callable as [name, kind, default] rows; None where it does not say.

    `drop` of them are left out: the object of a method, which may have any name.
    """
    try:
        found = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    rows = []
    for p in found:
        default = p.default if isinstance(p.default, PLAIN) else type(p.default).__name__
        rows.append([p.name, p.kind.name, "-" if p.default is p.empty else repr(default)])
    return rows[drop:]


def describe(package):
    """All public callables of a package: {dotted name: rows}."""
    described = {}
    for module in MODULES:
        path = "" if module == "." else f".{module}"
        try:
            home = importlib.import_module(package + path)
        except ImportError:
            continue
        for name in getattr(home, "__all__", None) or [n for n in dir(home) if n[0] != "_"]:
            value = getattr(home, name, None)
            if not callable(value) or inspect.ismodule(value):
                continue
            described[f"{path}.{name}"[1:]] = parameters(value)
            if inspect.isclass(value):
                for method, function in inspect.getmembers(value, inspect.isroutine):
                    if method[0] != "_":
                        static = isinstance(inspect.getattr_static(value, method), staticmethod)
                        described[f"{path}.{name}.{method}"[1:]] = parameters(function, not static)
    return described


def differences(ours, theirs):
    """What a call written for `theirs` could stumble over."""
    if any(kind == "VAR_KEYWORD" for _, kind, _ in ours):
        return []
    mine, order = {row[0]: row for row in ours}, [row[0] for row in ours]
    found = []
    known = [row for row in theirs if row[1] not in ("VAR_POSITIONAL", "VAR_KEYWORD")]
    for at, (name, _, default) in enumerate(known):
        if name not in mine:
            found.append(f"lacks {name}={default}")
        elif mine[name][2] != default:
            found.append(f"{name}={mine[name][2]}, not {default}")
        elif at < len(order) and order[at] != name:
            found.append(f"{name} is number {order.index(name) + 1}, not {at + 1}")
    known_names = {row[0] for row in theirs}
    found += [
        f"needs {n}" for n, k, d in ours if n not in known_names and d == "-" and "VAR" not in k
    ]
    return found


def main():
    if sys.argv[1] == "--describe":
        print(json.dumps(describe(sys.argv[2])))
        return
    asked = [sys.argv[1], __file__, "--describe", "paddle"]
    theirs = json.loads(
        subprocess.run(asked, check=True, capture_output=True).stdout.splitlines()[-1]
    )
    for name, ours in sorted(describe("bireme").items()):
        if ours is None or theirs.get(name) is None:
            continue
        found = differences(ours, theirs[name])
        if found:
            print(f"{name}: {'; '.join(found)}")


if __name__ == "__main__":
    main()
