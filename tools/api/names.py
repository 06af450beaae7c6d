"""Looks into the built package: what a name leads to, what it accepts, which ops it calls."""

import ast
import importlib
import inspect
import textwrap

# Calls are followed this deep: a layer calls a functional, which may call a helper.
DEPTH = 4


def resolve(name):
    """What Paddle's name leads to here, in a list of one; None where it does not exist."""
    first, *rest = name.split(".")
    assert first == "paddle", name
    path, thing = "bireme", importlib.import_module("bireme")
    for part in rest:
        path = f"{path}.{part}"
        try:
            thing = getattr(thing, part)
        except (AttributeError, ImportError):
            try:
                thing = importlib.import_module(path)
            except (AttributeError, ImportError):
                return None
    return [thing]


def signature(thing):
    """Its parameters; None for what has no signature that Python can read."""
    try:
        return list(inspect.signature(thing).parameters.values())
    except (TypeError, ValueError):
        return None


def only_raises(thing):
    """Whether a function or the making of an object does nothing but raise: a name in name only."""
    if inspect.isclass(thing):
        thing = vars(thing).get("__init__")
    thing = inspect.unwrap(thing) if callable(thing) else thing
    if not inspect.isfunction(thing):
        return False
    try:
        function = ast.parse(textwrap.dedent(inspect.getsource(thing))).body[0]
    except (OSError, SyntaxError):
        return False
    body = function.body if isinstance(function, ast.FunctionDef) else []
    is_text = body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    return isinstance((body[1:] if is_text else body or [None])[0], ast.Raise)


def lacking_ops(thing):
    """The ops that it calls and the engine does not have."""
    known = importlib.import_module("bireme._core").ops
    return [op for op in ops_of(thing) if not hasattr(known, op)]


def ops_of(thing, depth=DEPTH):
    """The engine's ops that a function or a layer's `forward` calls, in the order of the text."""
    if inspect.isclass(thing):
        # Inherited too: the layers of a kind often share it.
        thing = getattr(thing, "forward", None)
    thing = inspect.unwrap(thing) if callable(thing) else thing
    if not inspect.isfunction(thing) or depth == 0:
        return []
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(thing)))
    except (OSError, SyntaxError):
        return []
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            found += called_ops(node.func, thing, depth)
    return list(dict.fromkeys(found))


def called_ops(callee, function, depth):
    # Layers that are one function have it from the function that made them.
    made_with = inspect.getclosurevars(function).nonlocals
    module = {**function.__globals__, **made_with}
    if isinstance(callee, ast.Attribute) and isinstance(callee.value, ast.Name):
        if callee.value.id in ("ops", "_ops"):
            return [callee.attr]
        home = module.get(callee.value.id)
        inner = getattr(home, callee.attr, None) if inspect.ismodule(home) else None
    else:
        inner = module.get(callee.id) if isinstance(callee, ast.Name) else None
    ours = inspect.isfunction(inner) and (inner.__module__ or "").startswith("bireme")
    return ops_of(inner, depth - 1) if ours and inner is not function else []
