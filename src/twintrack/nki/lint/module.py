"""One source file as the lint sees it: what names mean, which functions are kernels, what kernels reach."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

__all__ = ["Function", "Module", "body_nodes", "read_module"]

_JIT = ("nki.jit", "nki.simulate")


@dataclass(frozen=True, eq=False)
class Function:
    """A function of the file.

    Attributes:
        node: its definition.
        scope: function it is defined in, or None.
        owner: class it is a method of, or empty.
        decorators: expressions of ``nki.jit`` among its decorators.
    """

    node: ast.FunctionDef
    scope: Function | None
    owner: str
    decorators: tuple[ast.expr, ...]

    @property
    def name(self) -> str:
        """Name as it is defined, with its class."""
        return f"{self.owner}.{self.node.name}" if self.owner else self.node.name

    @property
    def first_line(self) -> int:
        """Line at which Python says that the function begins: that of its first decorator."""
        return min([self.node.lineno, *(decorator.lineno for decorator in self.node.decorator_list)])

    def parameters(self) -> list[ast.arg]:
        """All parameters in order."""
        a = self.node.args
        collecting = [each for each in (a.vararg, a.kwarg) if each is not None]
        return [*a.posonlyargs, *a.args, *a.kwonlyargs, *collecting]

    @cached_property
    def bound(self) -> frozenset[str]:
        """Names that the function binds: parameters and what it assigns, nested functions left out."""
        names = {parameter.arg for parameter in self.parameters()}
        shared: set[str] = set()
        for node in body_nodes(self.node):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.Global | ast.Nonlocal):
                shared.update(node.names)
        return frozenset(names - shared)


@dataclass(frozen=True)
class Module:
    """A parsed file.

    Attributes:
        tree: the file.
        aliases: imported name to everything that it may mean (several where ``try`` chooses one).
        functions: all functions, nested ones and methods too.
        classes: all classes by name.
        variables: names assigned at the top of the file.
        wrapped: names of plain functions that are given to ``nki.jit`` or ``nki.simulate`` somewhere.
    """

    tree: ast.Module
    aliases: dict[str, frozenset[str]]
    functions: tuple[Function, ...]
    classes: dict[str, ast.ClassDef]
    variables: dict[str, list[ast.expr]]
    wrapped: frozenset[str] = field(default=frozenset())

    def meanings(self, node: ast.expr) -> frozenset[str]:
        """Dotted names that an expression such as ``nl.no_reorder`` may stand for; empty where it is no import."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.aliases:
            return frozenset()
        return frozenset(".".join([start, *reversed(parts)]) for start in self.aliases[node.id])

    def means(self, node: ast.expr, *names: str) -> bool:
        """Whether an expression stands for one of the dotted names and for nothing else."""
        found = self.meanings(node)
        return bool(found) and found <= frozenset(names)

    def kernels(self) -> list[Function]:
        """Functions decorated with ``nki.jit``, or handed to ``nki.jit`` or ``nki.simulate``."""
        return [f for f in self.functions if f.decorators or (f.node.name in self.wrapped and not f.owner)]

    def function(self, name: str, seen_from: Function | None) -> Function | None:
        """The function that a plain name means inside another one, or None where it means something else."""
        scope = seen_from
        while True:
            found = [f for f in self.functions if f.node.name == name and f.scope is scope and not f.owner]
            if found:
                return found[-1]
            if scope is None or name in scope.bound:
                return None
            scope = scope.scope

    def reached(self, roots: Iterable[Function]) -> list[Function]:
        """Roots and every function of the file that they call or pass on, in the order of the file.

        Functions defined inside another are reached with it. A method is reached where reached code names its class
        and calls something of its name.
        """
        pending, found = list(roots), set()
        made: set[str] = set()
        called: set[str] = {"__init__", "__post_init__", "__call__"}
        while pending:
            function = pending.pop()
            if function in found:
                continue
            found.add(function)
            for node in body_nodes(function.node):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                    other = self.function(node.id, function)
                    if other is not None:
                        pending.append(other)
                    if node.id in self.classes:
                        made.add(node.id)
                elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    called.add(node.func.attr)
            pending += [
                f
                for f in self.functions
                if f.scope is function or (f.owner in made and f.node.name in called and f not in found)
            ]
        return [f for f in self.functions if f in found]


def body_nodes(node: ast.FunctionDef) -> Iterator[ast.AST]:
    """What runs when a function is called, in source order: not its decorators, annotations and defaults.

    Functions and classes defined inside it are given as nodes, without what is in them.
    """
    pending: list[ast.AST] = list(reversed(node.body))
    while pending:
        each = pending.pop()
        yield each
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner: list[ast.AST] = []
        elif isinstance(each, ast.Lambda):
            inner = [each.body]
        elif isinstance(each, ast.AnnAssign):
            inner = [part for part in (each.target, each.value) if part is not None]
        else:
            inner = list(ast.iter_child_nodes(each))
        pending.extend(reversed(inner))


def read_module(source: str, filename: str) -> Module:
    """Parse a file. It is not run.

    Raises:
        SyntaxError: the file is no Python.
    """
    tree = ast.parse(source, filename)
    aliases = _aliases(tree)
    module = Module(tree, aliases, (), {}, _variables(tree))
    functions: list[Function] = []
    _collect(module, tree.body, None, "", functions)
    wrapped = {
        argument.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and module.means(node.func, *_JIT)
        for argument in node.args[:1]
        if isinstance(argument, ast.Name)
    }
    classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    return Module(tree, aliases, tuple(functions), classes, module.variables, frozenset(wrapped))


def _aliases(tree: ast.Module) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                found.setdefault(alias.asname or top, set()).add(alias.name if alias.asname else top)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                found.setdefault(alias.asname or alias.name, set()).add(f"{node.module}.{alias.name}")
    return {name: frozenset(meanings) for name, meanings in found.items()}


def _variables(tree: ast.Module) -> dict[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(node.value)
    return found


def _collect(
    module: Module, body: Iterable[ast.stmt], scope: Function | None, owner: str, into: list[Function]
) -> None:
    for node in body:
        if isinstance(node, ast.FunctionDef):
            jits = tuple(
                d
                for d in node.decorator_list
                if "nki.jit" in module.meanings(d.func if isinstance(d, ast.Call) else d)
            )
            function = Function(node, scope, owner, jits)
            into.append(function)
            _collect(module, node.body, function, "", into)
        elif isinstance(node, ast.ClassDef):
            _collect(module, node.body, scope, node.name, into)
        else:
            _collect(module, _statements_of(node), scope, owner, into)


def _statements_of(node: ast.stmt) -> Iterator[ast.stmt]:
    """Statements directly inside another one, those of its ``except`` and ``case`` parts with them."""
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.stmt):
            yield part
        elif isinstance(part, ast.ExceptHandler | ast.match_case):
            yield from part.body
