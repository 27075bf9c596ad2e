"""The rule on Python branches: a compiler resolves them, so it cannot take one on what a tile holds."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from twintrack.nki.lint.expressions import Broken
from twintrack.nki.lint.module import Function, Module, body_nodes

__all__ = ["broken_branches"]

_COMPARISONS = tuple(
    f"nki.language.{name}"
    for name in (
        "equal",
        "not_equal",
        "less",
        "less_equal",
        "greater",
        "greater_equal",
        "logical_and",
        "logical_or",
        "logical_xor",
        "logical_not",
    )
)


def broken_branches(module: Module, function: Function) -> Iterator[Broken]:
    """Conditions in a function's body that are comparisons of tiles, called in the condition itself.

    An ``assert`` is no branch, whatever its condition.
    """
    nodes = list(body_nodes(function.node))
    asserted = {id(part) for node in nodes if isinstance(node, ast.Assert) for part in ast.walk(node)}
    seen: set[int] = set()
    for node in nodes:
        if id(node) in asserted:
            continue
        for condition in _conditions(node):
            for call in _compared(module, function, condition):
                if id(call) not in seen:
                    seen.add(id(call))
                    yield "branch-on-tile", call, f"'{ast.unparse(call)}' as a condition"


def _conditions(node: ast.AST) -> list[ast.expr]:
    """Expressions whose truth decides what runs next."""
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        return [node.test]
    if isinstance(node, ast.BoolOp):
        return node.values[:-1]  # the last one is the result
    return node.ifs if isinstance(node, ast.comprehension) else []


def _compared(module: Module, function: Function, condition: ast.expr) -> Iterator[ast.Call]:
    if isinstance(condition, ast.BoolOp):
        for value in condition.values:
            yield from _compared(module, function, value)
    elif isinstance(condition, ast.UnaryOp):
        yield from _compared(module, function, condition.operand)
    elif isinstance(condition, ast.Call):
        called = condition.func
        if module.means(called, *_COMPARISONS):
            yield condition
        elif isinstance(called, ast.Name) and called.id == "bool" and len(condition.args) == 1:
            own = "bool" in function.bound or "bool" in module.variables or module.function("bool", function)
            if not own:
                yield from _compared(module, function, condition.args[0])
