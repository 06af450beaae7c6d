"""The stubs name what the extension has, and nothing else."""

import ast
import inspect
import os
from pathlib import Path

import bireme
import pytest
from bireme import _core
from bireme._names import LAZY
from bireme.nn.layer import activation, loss, pooling


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


def test_every_lazy_name_is_there_for_editors():
    tree = ast.parse(Path(bireme.__file__).read_text("utf-8"))
    (checked,) = (node for node in tree.body if isinstance(node, ast.If))
    names = {alias.name for node in checked.body for alias in node.names}
    assert names == set(LAZY)


def check_stub(path, wanted):
    """Compares a generated stub with the file; `UPDATE_EXPECT=1` writes it."""
    if os.environ.get("UPDATE_EXPECT"):
        path.write_text(wanted, "utf-8")
    assert path.read_text("utf-8") == wanted, "run it again with UPDATE_EXPECT=1"


METHODS_HEAD = '''"""The methods that `tensor/methods.py` gives tensors and variables, for type checkers and editors.

Written by `python/tests/test_core_stubs.py`.
"""

from collections.abc import Iterator
from typing import Any

import bireme.tensor.scatter as _scatter

from .tensor import {modules}  # type: ignore[no-redef]

class TensorMethods:
    @property
    def T(self) -> Any: ...
    @property
    def place(self) -> Any: ...
    def __getitem__(self, index: Any) -> Any: ...
    def __setitem__(self, index: Any, value: Any) -> None: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __lt__(self, other: Any, /) -> Any: ...
    def __le__(self, other: Any, /) -> Any: ...
    def __gt__(self, other: Any, /) -> Any: ...
    def __ge__(self, other: Any, /) -> Any: ...
    def __eq__(self, other: object, /) -> Any: ...
    def __ne__(self, other: object, /) -> Any: ...
    def __hash__(self) -> int: ...
'''


def test_methods_from_python_have_signatures_for_editors():
    own = {name for node in stubs() if node_name(node) == "Tensor" for name in declared(node.body)}
    lines, modules = [], set()
    for name in sorted(set(dir(_core.Tensor)) - own):
        method = getattr(_core.Tensor, name)
        if name.startswith("_") or not callable(method):
            continue
        # A method in place has the signature of the function that it is made from.
        function = inspect.unwrap(method)
        module = function.__module__.rpartition(".")[2]
        # That module has the name of one of its functions.
        module = "_scatter" if module == "scatter" else module
        modules.add(module)
        lines.append(f"    {name} = {module}.{function.__name__}\n")
    head = METHODS_HEAD.format(modules=", ".join(sorted(modules - {"_scatter"})))
    check_stub(Path(bireme.__file__).with_name("_tensor_methods.pyi"), head + "".join(lines))


def stub_signature(function, first=""):
    """A signature as stubs write it, without the values of defaults."""
    signature = inspect.signature(function)

    def argument(parameter):
        known = parameter.annotation is not inspect.Parameter.empty
        kind = f": {parameter.annotation}" if known else ""
        default = "" if parameter.default is inspect.Parameter.empty else " = ..."
        return f"{parameter.name}{kind}{default}"

    arguments = ", ".join(filter(None, [first, *map(argument, signature.parameters.values())]))
    gives = signature.return_annotation
    return f"({arguments}) -> {None if gives is inspect.Signature.empty else gives}"


def layer_stub(module):
    """The stub of a module of layers, most of whose signatures follow from functions."""
    lines = [
        f'"""Signatures of `{module.__name__}`, written by `python/tests/test_core_stubs.py`."""',
        "",
        "from typing import Any",
        "",
        "from ...tensor.arguments import Tensor",
        "from .layers import Layer",
    ]
    for name in module.__all__:
        layer = getattr(module, name)
        lines += [
            "",
            f"class {name}(Layer):",
            f"    def __init__{stub_signature(layer, 'self')}: ...",
            f"    def forward{stub_signature(layer.forward)}: ...",
        ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("module", [activation, loss, pooling], ids=lambda module: module.__name__)
def test_layers_of_functions_have_signatures_for_editors(module):
    check_stub(Path(module.__file__).with_suffix(".pyi"), layer_stub(module))
