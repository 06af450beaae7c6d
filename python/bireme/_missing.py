"""Names of Paddle that Bireme lacks: one error for all, which names the nearest thing we have.

Every module of the package ends with `__getattr__ = missing_names(__name__)`. A name reaches us
in three ways, and Python swallows our message in two of them:

- `paddle.nn.Foo` calls the module's `__getattr__`, whose AttributeError is shown as it is;
- `import paddle.nn.foo`, and `from paddle.nn import Foo` where `paddle.nn` is a package, look for
  a submodule last, so the finder at the end of `sys.meta_path` has the word;
- `from paddle.nn.functional import foo`, where the module is no package, replaces an
  AttributeError by "cannot import name", so `__getattr__` raises ImportError itself.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

_PACKAGE = __name__.partition(".")[0]

# What became of names that users still write, where spelling alone would not find it.
_RENAMED = {
    "paddle.cat": "paddle.concat",
    "paddle.nn.ModuleList": "paddle.nn.LayerList",
    "paddle.nn.ModuleDict": "paddle.nn.LayerDict",
    "paddle.nn.Module": "paddle.nn.Layer",
    "paddle.nn.Parameter": "paddle.create_parameter",
    "paddle.optim": "paddle.optimizer",
    "paddle.elementwise_add": "paddle.add",
    "paddle.elementwise_sub": "paddle.subtract",
    "paddle.elementwise_mul": "paddle.multiply",
    "paddle.elementwise_div": "paddle.divide",
    "paddle.reduce_sum": "paddle.sum",
    "paddle.reduce_mean": "paddle.mean",
    "paddle.fill_constant": "paddle.full",
    "paddle.initializer": "paddle.nn.initializer",
    "paddle.metrics": "paddle.metric",
    "paddle.optimizers": "paddle.optimizer",
    "paddle.layers": "paddle.fluid.layers",
    "paddle.layer": "paddle.fluid.layers",
    "paddle.trainer": "paddle.static.Executor",
    "paddle.onnx": "paddle.jit.save",
    "paddle.v2.layer": "paddle.fluid.layers",
    "paddle.v2.trainer": "paddle.static.Executor",
    "paddle.fluid.PyReader": "paddle.io.DataLoader.from_generator",
    "paddle.fluid.io.PyReader": "paddle.io.DataLoader.from_generator",
    "paddle.fluid.layers.py_reader": "paddle.io.DataLoader.from_generator",
}

# Methods that other libraries call by other names.
_METHODS = {
    "zero_grad": "clear_grad",
    "load_state_dict": "set_state_dict",
    "named_modules": "named_sublayers",
    "modules": "sublayers",
    "register_forward_hook": "register_forward_post_hook",
    "div": "divide",
    "double": "astype",
    "expand_dims": "unsqueeze",
    "float": "astype",
    "half": "astype",
    "int": "astype",
    "long": "astype",
    "mul": "multiply",
    "permute": "transpose",
    "requires_grad": "stop_gradient",
    "sub": "subtract",
    "swapaxes": "transpose",
    "type": "astype",
}

# Where to look for a name that its own module does not resemble.
_HOMES = ("", ".nn", ".nn.functional", ".static", ".static.nn", ".fluid.layers", ".optimizer")


class MissingNameError(AttributeError):
    """A name that Paddle may have and Bireme has not; the text is made when it is shown.

    Looking for the nearest name is slow and imports modules, and `hasattr` and `try: import` ask
    for many names that nobody is told about.
    """

    def __init__(self, module: str, name: str):
        super().__init__(module, name)

    def __str__(self) -> str:
        return describe(*self.args)


class MissingModuleError(ModuleNotFoundError):
    """A module that Paddle may have and Bireme has not; the text is made when it is shown."""

    def __init__(self, module: str, name: str):
        # Paddle's spelling as `name`: for that of the module itself Python would drop our error
        # in `from bireme.nn import Foo` and say "cannot import name".
        super().__init__(module, name, name=f"{_as_paddle(module)}.{name}")

    def __str__(self) -> str:
        return describe(*self.args)


class MissingAttributeError(AttributeError):
    """An attribute that Paddle's class may have and ours has not; the text is made when shown."""

    def __init__(self, owner: Any, name: str):
        super().__init__(owner, name)

    def __str__(self) -> str:
        return describe_attribute(*self.args)


def missing_attribute(owner: Any, name: str) -> Any:
    """The `__getattr__` of tensors, variables and layers."""
    if name.startswith("_"):
        # Asked for by protocols, of which there are many.
        raise AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}")
    raise MissingAttributeError(owner, name)


def describe_attribute(owner: Any, name: str) -> str:
    """Says that an attribute is missing, and what comes nearest."""
    from difflib import get_close_matches

    kind = type(owner).__name__
    similar = get_close_matches(name, [n for n in dir(owner) if n[0] != "_"], n=1, cutoff=0.7)
    other = _METHODS.get(name, "")
    nearest = other if hasattr(type(owner), other) else next(iter(similar), None)
    hint = f"; nearest: `{kind}.{nearest}`" if nearest else ""
    return f"`{kind}` has no attribute `{name}` in Bireme{hint}"


def missing_names(module: str, lazy: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """The `__getattr__` of a module; `lazy` maps names to the places they are fetched from.

    A place is `"package.module"`, or `"package.module:attribute"` for something in it.

    >>> from bireme._missing import missing_names
    >>> fetch = missing_names("bireme.nn", {"json_dumps": "json:dumps"})
    >>> fetch("json_dumps")({})
    '{}'
    """
    places = dict(lazy or {})

    def fetch(name: str) -> Any:
        if name in places:
            source, _, attribute = places[name].partition(":")
            value = importlib.import_module(source)
            value = getattr(value, attribute) if attribute else value
            # From now on Python finds it without asking us.
            setattr(sys.modules[module], name, value)
            return value
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if _is_from_import(sys._getframe(1)):
            raise ImportError(describe(module, name), name=_as_paddle(module))
        raise MissingNameError(module, name)

    return fetch


def missing_module(fullname: str) -> ModuleNotFoundError:
    """The error for importing a submodule that is not there."""
    module, _, name = fullname.rpartition(".")
    return MissingModuleError(module, name)


def describe(module: str, name: str) -> str:
    """Says that a name is missing, and what comes nearest.

    >>> from bireme._missing import describe
    >>> describe("bireme", "trainer")
    '`paddle.trainer` is not in Bireme; nearest: `paddle.static.Executor` (see docs/api.md)'
    """
    wanted = f"{_as_paddle(module)}.{name}"
    nearest = _RENAMED.get(wanted) or _nearest(module, name)
    hint = f"; nearest: `{nearest}`" if nearest else ""
    return f"`{wanted}` is not in Bireme{hint} (see docs/api.md)"


class MissingFinder:
    """Asked last of all finders, and so only for modules that nobody has."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        parent, _, name = fullname.rpartition(".")
        # Underscored names are for our own modules to look for each other.
        if parent.partition(".")[0] != _PACKAGE or name.startswith("_"):
            return
        # Tools that go through the finders by themselves, with a path of their own, want an answer
        # and not an error.
        if path is getattr(sys.modules.get(parent), "__path__", None):
            raise missing_module(fullname)


def install_finder() -> None:
    """Puts the finder behind all others, once."""
    if not any(isinstance(finder, MissingFinder) for finder in sys.meta_path):
        sys.meta_path.append(MissingFinder())


def _as_paddle(name: str) -> str:
    return "paddle" + name[len(_PACKAGE) :] if name.startswith(_PACKAGE) else name


def _nearest(module: str, name: str) -> str | None:
    """The most similar name in the module itself, else the same or a similar one elsewhere."""
    from difflib import get_close_matches

    similar = get_close_matches(name, _names(module), n=1, cutoff=0.8)
    if similar:
        return f"{_as_paddle(module)}.{similar[0]}"
    homes = [home for home in (_PACKAGE + suffix for suffix in _HOMES) if home != module]
    for spelling in (str, str.lower):
        for home in homes:
            found = next((n for n in _names(home) if spelling(n) == spelling(name)), None)
            if found:
                return f"{_as_paddle(home)}.{found}"
    similar = get_close_matches(name, _names(module), n=1, cutoff=0.6)
    return f"{_as_paddle(module)}.{similar[0]}" if similar else None


def _names(module: str) -> list[str]:
    try:
        return [name for name in dir(importlib.import_module(module)) if not name.startswith("_")]
    except ImportError:
        return []


def _is_from_import(frame: Any) -> bool:
    """Whether the frame is at the second half of `from module import name`."""
    from opcode import opmap

    code, at = frame.f_code.co_code, frame.f_lasti
    return 0 <= at < len(code) and code[at] == opmap["IMPORT_FROM"]
