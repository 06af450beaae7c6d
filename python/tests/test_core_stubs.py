"""The stubs name what the extension has, and nothing else."""

import ast
from pathlib import Path

import bireme
from bireme import _core
from bireme._names import LAZY


def declared(body):
    """Names that a module or class body of the stubs declares."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def node_name(node):
    return getattr(node, "name", None)


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


def test_every_method_from_python_is_declared():
    path = Path(bireme.__file__).with_name("_tensor_methods.pyi")
    (methods,) = (
        node for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.ClassDef)
    )
    names = set(declared(methods.body))
    names |= {node.targets[0].id for node in methods.body if isinstance(node, ast.Assign)}
    own = {name for node in stubs() if node_name(node) == "Tensor" for name in declared(node.body)}
    attached = {name for name in dir(_core.Tensor) if not name.startswith("_")}
    assert {name for name in names if not name.startswith("_")} == attached - own


def test_every_lazy_name_is_there_for_editors():
    tree = ast.parse(Path(bireme.__file__).read_text("utf-8"))
    (checked,) = (node for node in tree.body if isinstance(node, ast.If))
    names = {alias.name for node in checked.body for alias in node.names}
    assert names == set(LAZY)
