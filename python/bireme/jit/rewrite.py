"""Rewrites a function so that its `if`, `for` and `while` may be over variables of a program.

Each becomes a call into `flow.py` with its parts as functions, which looks at what it is given: over
Python values it does what Python does, over variables it appends ops that run blocks. Statements that
leave their block (`break`, `continue`, a `return` that is not last) stay as they are, and so are errors
over variables, at their own lines.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
import types
from collections.abc import Callable
from typing import Any

from . import flow

__all__ = ["rewritten"]

_HELPERS = "__bireme_flow__"
_UNTOUCHED = "__not_to_static__"

#: Modules whose functions stay as they are.
untouched_modules: set[str] = set()

_LOOPS = (ast.For, ast.While, ast.AsyncFor)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def rewritten(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its control flow rewritten; itself if it has none, or no source."""
    if inspect.ismethod(function):
        inner = _rewritten(function.__func__)
        return types.MethodType(inner, function.__self__)
    if isinstance(function, types.FunctionType):
        return _rewritten(function)
    return function


@functools.lru_cache(maxsize=512)
def _rewritten(function: Any) -> Any:
    tree = _source(function)
    if tree is None:
        return function
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef) or not _has_flow(definition):
        return function
    if getattr(function, _UNTOUCHED, False) or function.__module__ in untouched_modules:
        return function
    definition.decorator_list = []
    first = definition.args.posonlyargs + definition.args.args
    owner = first[0].arg if first else None
    definition.body = _Statements(owner).block(definition.body, ends=True)
    names = [_HELPERS, *function.__code__.co_freevars]
    factory = ast.parse(
        f"def __factory__({', '.join(names)}):\n    pass\n    return {definition.name}"
    )
    factory.body[0].body[0] = definition  # type: ignore[attr-defined]
    ast.fix_missing_locations(factory)
    code = compile(factory, function.__code__.co_filename, "exec", dont_inherit=True)
    outer = next(c for c in code.co_consts if isinstance(c, types.CodeType))
    inner = next(
        c for c in outer.co_consts if isinstance(c, types.CodeType) and c.co_name == definition.name
    )
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    cells[_HELPERS] = types.CellType(flow)
    made = types.FunctionType(
        inner,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        tuple(cells[name] for name in inner.co_freevars),
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return functools.update_wrapper(made, function)


def leave(function: Any) -> Any:
    """Marks a function that stays as it is."""
    setattr(function, _UNTOUCHED, True)
    return function


def _source(function: Any) -> ast.Module | None:
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return None
    return ast.increment_lineno(tree, first - 1) if tree.body else None


def _has_flow(node: ast.AST) -> bool:
    kinds = (*_LOOPS, ast.If, ast.IfExp, ast.BoolOp, ast.Not, ast.Call, ast.Assert)
    # Parts of it become functions of their own, where these would mean something else.
    others = (ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal, ast.NamedExpr)
    has_others = any(isinstance(n, others) for n in ast.walk(node))
    return not has_others and any(isinstance(n, kinds) for n in ast.walk(node))


def _inside(nodes: list[ast.stmt]) -> list[ast.AST]:
    """All nodes below, but those of functions and classes defined there."""
    found: list[ast.AST] = []
    waiting: list[ast.AST] = list(nodes)
    while waiting:
        node = waiting.pop()
        found.append(node)
        if not isinstance(node, _SCOPES):
            waiting.extend(ast.iter_child_nodes(node))
    return found


def _assigned(nodes: list[ast.stmt]) -> list[str]:
    """The names that statements assign, sorted."""
    names = set()
    comprehended: set[str] = set()
    for node in _inside(nodes):
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            names.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, _COMPREHENSIONS):
            for part in node.generators:
                targets = (n for n in ast.walk(part.target) if isinstance(n, ast.Name))
                comprehended.update(target.id for target in targets)
    return sorted(names - comprehended)


def _leaves(nodes: list[ast.stmt]) -> bool:
    """Whether statements may leave the block that they are in, or say whose a name is."""
    jumps = (ast.Return, ast.Global, ast.Nonlocal, ast.Yield, ast.YieldFrom, ast.Await)
    if any(isinstance(node, jumps) for node in _inside(nodes)):
        return True
    outside: list[ast.AST] = list(nodes)
    while outside:
        node = outside.pop()
        if isinstance(node, (ast.Break, ast.Continue)):
            return True
        if not isinstance(node, (*_SCOPES, *_LOOPS)):
            outside.extend(ast.iter_child_nodes(node))
        elif isinstance(node, _LOOPS):
            outside.extend(node.orelse)
    return False


class _Statements(ast.NodeTransformer):
    """Rewrites statements and the expressions in them."""

    def __init__(self, owner: str | None) -> None:
        self.count = 0
        #: The first parameter, on which `super()` works.
        self.owner = owner

    def block(self, body: list[ast.stmt], ends: bool = False) -> list[ast.stmt]:
        """The statements of a block, rewritten; `ends` says that the function ends with it."""
        done: list[ast.stmt] = []
        for at, statement in enumerate(body):
            if ends and isinstance(statement, ast.If) and self._returns(statement, body[at + 1 :]):
                # What follows an `if` that returns is its other case.
                rest = statement.orelse + body[at + 1 :]
                return done + self._returning_if(statement, rest)
            new = self.visit(statement)
            done.extend(new if isinstance(new, list) else [new])
        return done

    def _returns(self, node: ast.If, rest: list[ast.stmt]) -> bool:
        """Whether all ways through an `if` and what follows it end with a `return`."""
        if not any(isinstance(n, ast.Return) for n in _inside([node])):
            return False
        return _always_returns(node.body) and _always_returns(node.orelse + rest)

    def _returning_if(self, node: ast.If, rest: list[ast.stmt]) -> list[ast.stmt]:
        names = sorted({*_assigned(node.body), *_assigned(rest)})
        first, other = self._name("if"), self._name("else")
        test = self.visit(node.test)
        call = self._call("choose", node, [test, first, other], names, returns=True)
        return [
            self._function(first, names, self.block(node.body, ends=True), node, None),
            self._function(other, names, self.block(rest, ends=True), node, None),
            ast.copy_location(ast.Return(value=call), node),
        ]

    def visit_If(self, node: ast.If) -> Any:
        if _leaves(node.body) or _leaves(node.orelse):
            node.test = self.visit(node.test)
            node.body, node.orelse = self.block(node.body), self.block(node.orelse)
            return node
        names = _assigned(node.body + node.orelse)
        first, other = self._name("if"), self._name("else")
        test = self.visit(node.test)
        return [
            self._function(first, names, self.block(node.body), node, names),
            self._function(other, names, self.block(node.orelse), node, names),
            self._assign(names, self._call("choose", node, [test, first, other], names), node),
        ]

    def visit_While(self, node: ast.While) -> Any:
        if node.orelse or _leaves(node.body):
            node.test = self.visit(node.test)
            node.body, node.orelse = self.block(node.body), self.block(node.orelse)
            return node
        names = _assigned(node.body)
        test, body = self._name("test"), self._name("body")
        decides: list[ast.stmt] = [ast.copy_location(ast.Return(value=self.visit(node.test)), node)]
        return [
            self._function(test, names, decides, node, None),
            self._function(body, names, self.block(node.body), node, names),
            self._assign(names, self._call("repeat", node, [test, body], names), node),
        ]

    def visit_For(self, node: ast.For) -> Any:
        node.iter = self._range(node.iter)
        if node.orelse or _leaves(node.body):
            node.body, node.orelse = self.block(node.body), self.block(node.orelse)
            return node
        names = _assigned([node])
        body, item = self._name("body"), self._name("item")
        takes = ast.Assign(targets=[node.target], value=ast.Name(item, ast.Load()))
        inside = [ast.copy_location(takes, node), *self.block(node.body)]
        return [
            self._function(body, names, inside, node, names, first=item),
            self._assign(names, self._call("for_each", node, [node.iter, body], names), node),
        ]

    def _range(self, iterated: ast.expr) -> ast.expr:
        """`range` that takes variables, in the place of Python's."""
        is_range = isinstance(iterated, ast.Call) and isinstance(iterated.func, ast.Name)
        if is_range and iterated.func.id == "range" and not iterated.keywords:  # type: ignore[attr-defined]
            helper = ast.Attribute(ast.Name(_HELPERS, ast.Load()), "span", ast.Load())
            iterated.func = ast.copy_location(helper, iterated)  # type: ignore[attr-defined]
        return self.visit(iterated)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        values = [self._later(self.visit(value)) for value in node.values]
        name = "both" if isinstance(node.op, ast.And) else "either"
        return self._helper(name, node, values)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        operand = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return self._helper("invert", node, [operand])
        node.operand = operand
        return node

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        parts = [self._later(self.visit(part)) for part in (node.body, node.orelse)]
        line = ast.Constant(node.lineno)
        return self._helper("pick", node, [self.visit(node.test), *parts, line])

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        is_helper = isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name == "super" and not node.args and self.owner:
            # It works in the method alone, of which this becomes a part.
            node.args = [ast.Name("__class__", ast.Load()), ast.Name(self.owner, ast.Load())]
            return ast.fix_missing_locations(node)
        plain = name in ("super", "locals", "globals")
        if plain or (is_helper and node.func.value.id == _HELPERS):  # type: ignore[attr-defined]
            return node
        node.func = self._helper("called", node.func, [node.func])
        return node

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        # Rewritten when it is called.
        return node

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]
    visit_ClassDef = visit_FunctionDef  # type: ignore[assignment]

    def _name(self, what: str) -> str:
        self.count += 1
        return f"__{what}_{self.count}"

    def _later(self, value: ast.expr) -> ast.expr:
        empty = ast.arguments([], [], None, [], [], None, [])
        return ast.copy_location(ast.Lambda(args=empty, body=value), value)

    def _helper(self, name: str, node: ast.expr | ast.stmt, arguments: list[Any]) -> ast.expr:
        helper = ast.Attribute(ast.Name(_HELPERS, ast.Load()), name, ast.Load())
        call = ast.copy_location(ast.Call(helper, arguments, []), node)
        return ast.fix_missing_locations(call)

    def _function(
        self,
        name: str,
        names: list[str],
        body: list[ast.stmt],
        node: ast.stmt,
        results: list[str] | None,
        first: str | None = None,
    ) -> ast.stmt:
        """A function of the names that its body assigns, which returns them, too."""
        arguments = [ast.arg(arg) for arg in ([first] if first else []) + names]
        if results is not None:
            values = [ast.Name(each, ast.Load()) for each in results]
            gone = [
                self._helper(
                    "still_there",
                    node,
                    [ast.Call(ast.Name("locals", ast.Load()), [], []), ast.Constant(v.id)],
                )
                for v in values
            ]
            body = [*body, ast.Return(value=ast.Tuple(gone, ast.Load()))]
        made = ast.parse(f"def {name}(): pass").body[0]
        made.args = ast.arguments([], arguments, None, [], [], None, [])  # type: ignore[attr-defined]
        made.body = body or [ast.Pass()]  # type: ignore[attr-defined]
        return ast.fix_missing_locations(ast.copy_location(made, node))

    def _call(
        self, helper: str, node: ast.stmt, parts: list[Any], names: list[str], returns: bool = False
    ) -> ast.expr:
        loaded = [ast.Name(p, ast.Load()) if isinstance(p, str) else p for p in parts]
        now = ast.Call(ast.Name("locals", ast.Load()), [], [])
        listed = ast.Tuple([ast.Constant(name) for name in names], ast.Load())
        tail: list[ast.expr] = [now, listed, ast.Constant(node.lineno)]
        if returns:
            tail.append(ast.Constant(True))
        return self._helper(helper, node, [*loaded, *tail])

    def _assign(self, names: list[str], value: ast.expr, node: ast.stmt) -> ast.stmt:
        if not names:
            return ast.fix_missing_locations(ast.copy_location(ast.Expr(value), node))
        target = ast.Tuple([ast.Name(name, ast.Store()) for name in names], ast.Store())
        assign = ast.Assign(targets=[target], value=value)
        return ast.fix_missing_locations(ast.copy_location(assign, node))


def _always_returns(body: list[ast.stmt]) -> bool:
    """Whether every way through statements ends with a `return`, and there is no other jump."""
    if not body:
        return False
    *before, last = body
    if any(isinstance(n, (ast.Break, ast.Continue)) for n in _inside(before)):
        return False
    for at, statement in enumerate(body):
        if isinstance(statement, ast.If) and any(
            isinstance(n, ast.Return) for n in _inside([statement])
        ):
            rest = statement.orelse + body[at + 1 :]
            return _always_returns(statement.body) and _always_returns(rest)
        if isinstance(statement, ast.Return):
            return statement is last
        if any(isinstance(n, ast.Return) for n in _inside([statement])):
            return False
    return False
