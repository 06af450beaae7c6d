"""The stubs name what the extension has, and nothing else."""

import ast
from pathlib import Path

import bireme
from bireme import _core


def declared(body):
    """Names that a module or class body of the stubs declares."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def stubs():
    path = Path(bireme.__file__).with_name("_core.pyi")
    return ast.parse(path.read_text(encoding="utf-8")).body


def is_own(name):
    return not name.startswith("_") or name == "__version__"


def test_every_name_of_the_module_is_declared():
    # Python files of the package attach methods to the classes, but nothing to the module.
    assert {name for name in dir(_core) if is_own(name)} == set(filter(is_own, declared(stubs())))


def test_every_declared_member_exists():
    for node in stubs():
        if isinstance(node, ast.ClassDef):
            members = {name for name in declared(node.body) if name != "__getattr__"}
            missing = members - set(dir(getattr(_core, node.name)))
            assert not missing, f"{node.name} has no {missing}"
