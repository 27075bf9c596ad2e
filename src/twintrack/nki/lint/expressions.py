"""Rules on single expressions: identity, values and keys the language does not have, operators on enumerations."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from twintrack.nki.lint.module import Function, Module, body_nodes

__all__ = ["broken_expressions"]

_UNSUPPORTED_CALLS = ("set", "frozenset", "bytes", "bytearray", "complex")
_LARGEST_INTEGER = 2**32 - 1
_LOWEST_INTEGER = -(2**31)
_MOST_DIGITS = 4096  # bits of results and sizes of exponents that are worked out
# The largest number that rounds to a finite float32 lies half a unit above the largest float32.
_LARGEST_FLOAT = 2.0**128 - 2.0**103
_RANGES = tuple(f"nki.language.{name}" for name in ("affine_range", "sequential_range", "static_range"))
_OPERATORS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}

_FOLDS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = MappingProxyType(
    {
        ast.Add: operator.add,
        ast.Sub: operator.sub,
        ast.Mult: operator.mul,
        ast.Div: operator.truediv,
        ast.FloorDiv: operator.floordiv,
        ast.Mod: operator.mod,
        ast.Pow: operator.pow,
        ast.LShift: operator.lshift,
        ast.RShift: operator.rshift,
    }
)

Broken = tuple[str, ast.AST, str]
"""Name of the rule, place, what was found."""


def broken_expressions(module: Module, function: Function) -> Iterator[Broken]:
    """What single expressions of a function's body break."""
    integers = _loop_integers(module, function)
    dictionaries = _dictionaries(function)
    folded = _folded_parts(function)
    enums = {name for name, node in module.classes.items() if _is_enum(module, node)}
    for node in body_nodes(function.node):
        if isinstance(node, ast.Compare):
            yield from _identity(node)
        if isinstance(node, ast.Compare | ast.BinOp):
            yield from _enum_operator(node, enums, module)
        yield from _values(module, function, node)
        if isinstance(node, ast.BinOp) and id(node) not in folded:
            yield from _folded_value(node)
        yield from _keys(node, integers, dictionaries)


def _identity(node: ast.Compare) -> Iterator[Broken]:
    for each in node.ops:
        if isinstance(each, ast.Is | ast.IsNot):
            yield "identity-operator", node, f"'{ast.unparse(node)}'"


def _values(module: Module, function: Function, node: ast.AST) -> Iterator[Broken]:
    if isinstance(node, ast.Set | ast.SetComp):
        yield "value-type", node, "a set"
    elif (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _UNSUPPORTED_CALLS
    ):
        name = node.func.id
        if not (name in function.bound or name in module.variables or module.function(name, function)):
            yield "value-type", node, f"a value of type {name}"
    elif isinstance(node, ast.Constant):
        found = _unsupported_constant(node.value)
        if found:
            yield "value-type", node, found


def _unsupported_constant(value: object) -> str:
    if isinstance(value, bytes):
        return "bytes"
    if isinstance(value, complex):
        return f"the complex number {value}"
    if isinstance(value, int) and value > _LARGEST_INTEGER:
        return f"the integer {value}, which has more than 32 bits"
    if isinstance(value, float) and not math.isinf(value) and value >= _LARGEST_FLOAT:
        return f"the number {value}, which is beyond a 32-bit float"
    return ""


def _folded_parts(function: Function) -> frozenset[int]:
    """Operations on constants that are part of a larger one."""
    return frozenset(
        id(part)
        for node in body_nodes(function.node)
        if isinstance(node, ast.BinOp) and _fold(node) is not None
        for part in ast.walk(node)
        if part is not node
    )


def _folded_value(node: ast.BinOp) -> Iterator[Broken]:
    """An operation on constants, all of which the language has, whose result it does not have."""
    value = _fold(node)
    constants = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
    if value is None or any(_unsupported_constant(one) for one in constants):
        return
    if isinstance(value, int) and not _LOWEST_INTEGER <= value <= _LARGEST_INTEGER:
        yield "value-type", node, f"the integer '{ast.unparse(node)}', which has more than 32 bits"
    elif isinstance(value, float) and not math.isinf(value) and abs(value) >= _LARGEST_FLOAT:
        yield "value-type", node, f"the number '{ast.unparse(node)}', which is beyond a 32-bit float"


def _fold(node: ast.expr) -> int | float | None:
    """What an expression of constants is; ``None`` where it has other parts, no real value, or too many digits."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) in (int, float) else None  # type: ignore[return-value]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        operand = _fold(node.operand)
        return None if operand is None else -operand if isinstance(node.op, ast.USub) else operand
    if not isinstance(node, ast.BinOp) or type(node.op) not in _FOLDS:
        return None
    left, right = _fold(node.left), _fold(node.right)
    if left is None or right is None:
        return None
    if isinstance(node.op, ast.Pow | ast.LShift) and abs(right) > _MOST_DIGITS:
        return None
    try:
        found: Any = _FOLDS[type(node.op)](left, right)
    except (ArithmeticError, TypeError, ValueError):
        return None
    if isinstance(found, complex) or (isinstance(found, int) and found.bit_length() > _MOST_DIGITS):
        return None
    number: int | float = found
    return number


def _keys(node: ast.AST, integers: frozenset[str], dictionaries: frozenset[str]) -> Iterator[Broken]:
    keys: list[ast.expr] = []
    if isinstance(node, ast.Dict):
        keys = [key for key in node.keys if key is not None]
    elif isinstance(node, ast.DictComp):
        counted = {
            g.target.id for g in node.generators if isinstance(g.target, ast.Name) and _is_range(g.iter)
        }
        if not (isinstance(node.key, ast.Name) and node.key.id not in counted):
            keys, integers = [node.key], frozenset(counted)
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        named = isinstance(node.value, ast.Name) and node.value.id in dictionaries
        keys = [node.slice] if named else []
    for key in keys:
        if _is_no_string(key, integers):
            yield "dict-key", key, f"the key {ast.unparse(key)}"


def _is_no_string(key: ast.expr, integers: frozenset[str]) -> bool:
    """Whether a key is surely no string: what cannot be told from the source is not reported."""
    if isinstance(key, ast.Constant):
        return not isinstance(key.value, str)
    if isinstance(key, ast.UnaryOp):
        return isinstance(key.operand, ast.Constant)
    return isinstance(key, ast.Tuple) or (isinstance(key, ast.Name) and key.id in integers)


def _dictionaries(function: Function) -> frozenset[str]:
    """Local names that are never anything but a dictionary."""
    values: dict[str, list[ast.expr | None]] = {}
    for node in body_nodes(function.node):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            values.setdefault(node.targets[0].id, []).append(node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            values.setdefault(node.target.id, []).append(node.value)
    stores = _store_counts(function)
    return frozenset(
        name
        for name, assigned in values.items()
        if stores.get(name) == len(assigned) and all(_is_dictionary(value) for value in assigned)
    )


def _is_dictionary(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "dict"
    return isinstance(value, ast.Dict | ast.DictComp)


def _loop_integers(module: Module, function: Function) -> frozenset[str]:
    """Local names that are never anything but the variable of a counting loop."""
    counts: dict[str, int] = {}
    for node in body_nodes(function.node):
        if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
            ranged = isinstance(node.iter, ast.Call) and module.means(node.iter.func, *_RANGES)
            if ranged or _is_range(node.iter):
                counts[node.target.id] = counts.get(node.target.id, 0) + 1
    stores = _store_counts(function)
    return frozenset(name for name, count in counts.items() if stores.get(name) == count)


def _is_range(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"


def _store_counts(function: Function) -> dict[str, int]:
    counts: dict[str, int] = {parameter.arg: 1 for parameter in function.parameters()}
    for node in body_nodes(function.node):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            counts[node.id] = counts.get(node.id, 0) + 1
    return counts


def _is_enum(module: Module, node: ast.ClassDef) -> bool:
    return any(module.means(base, "enum.Enum") for base in node.bases)


def _enum_operator(node: ast.Compare | ast.BinOp, enums: set[str], module: Module) -> Iterator[Broken]:
    if isinstance(node, ast.BinOp):
        operands = [node.left, node.right]
        wrong = any(_is_member(each, enums, module) for each in operands)
    else:
        operands = [node.left, *node.comparators]
        wrong = any(
            type(compared) in _OPERATORS
            and (_is_member(left, enums, module) or _is_member(right, enums, module))
            for left, compared, right in zip(operands, node.ops, operands[1:], strict=False)
        )
    if wrong:
        yield "enum-operator", node, f"'{ast.unparse(node)}'"


def _is_member(node: ast.expr, enums: set[str], module: Module) -> bool:
    if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in enums):
        return False
    body = module.classes[node.value.id].body
    targets = [t for each in body if isinstance(each, ast.Assign) for t in each.targets]
    return node.attr in {target.id for target in targets if isinstance(target, ast.Name)}
