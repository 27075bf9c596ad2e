"""Rules on loops that run on the device: where they may stand, their step, their variable, their body."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from twintrack.nki.lint.expressions import Broken
from twintrack.nki.lint.module import Function, Module, body_nodes

__all__ = ["broken_loops"]

_RANGE = "nki.language.dynamic_range"
_FORI = "nki.language.fori_loop"
_WHILE = "nki.language.while_loop"
_WRITES = ("nki.isa.register_move", "nki.isa.register_load")
_ALLOCATES = "nki.isa.register_alloc"


@dataclass(frozen=True)
class _Counted:
    """A loop on the device with a counting variable: what its body is and what the variable is called."""

    variable: str
    body: tuple[ast.AST, ...]


def broken_loops(module: Module, function: Function) -> Iterator[Broken]:
    """What loops on the device in a function's body break."""
    registers = _registers(module, function)
    nodes = list(body_nodes(function.node))
    for node in nodes:
        if isinstance(node, ast.With) and any(_is_no_reorder(module, item) for item in node.items):
            yield from _inside_no_reorder(module, function, node, registers)
        if isinstance(node, ast.Call):
            yield from _step(module, node, registers)
            yield from _body_returns(module, function, node)
    for loop in _counted_loops(module, function, nodes):
        yield from _variable(module, loop)


def _is_no_reorder(module: Module, item: ast.withitem) -> bool:
    call = item.context_expr
    return isinstance(call, ast.Call) and module.means(call.func, "nki.language.no_reorder")


def _inside_no_reorder(
    module: Module, function: Function, block: ast.With, registers: frozenset[str]
) -> Iterator[Broken]:
    rule = "dynamic-loop-in-no-reorder"
    for statement in block.body:
        for node in ast.walk(statement):
            loop = _device_loop(module, node, registers)
            if loop:
                yield rule, node, f"{loop} in the no_reorder block of line {block.lineno}"
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                called = module.function(node.func.id, function)
                inner = next(_loops_below(module, called), "") if called is not None else ""
                if inner:
                    yield rule, node, f"a call of '{node.func.id}', which has {inner}"


def _loops_below(module: Module, start: Function) -> Iterator[str]:
    """Device loops of a function and of those that it reaches."""
    for function in module.reached([start]):
        registers = _registers(module, function)
        for node in body_nodes(function.node):
            loop = _device_loop(module, node, registers)
            if loop:
                yield loop


def _device_loop(module: Module, node: ast.AST, registers: frozenset[str]) -> str:
    """What kind of loop on the device a node is, in words; empty where it is none."""
    if isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and module.means(node.iter.func, _RANGE):
        return "a loop over dynamic_range"
    if isinstance(node, ast.Call) and module.means(node.func, _FORI, _WHILE):
        return "a fori_loop" if module.means(node.func, _FORI) else "a while_loop"
    if isinstance(node, ast.While) and isinstance(node.test, ast.Name) and node.test.id in registers:
        return f"a while loop on the register '{node.test.id}'"
    return ""


def _registers(module: Module, function: Function) -> frozenset[str]:
    """Local names that are assigned once, and that a register."""
    assigned = [node for node in body_nodes(function.node) if isinstance(node, ast.Assign)]
    stores = [
        n.id for n in body_nodes(function.node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    ]
    return frozenset(
        node.targets[0].id
        for node in assigned
        if isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Call)
        and module.means(node.value.func, _ALLOCATES)
        and stores.count(node.targets[0].id) == 1
    )


def _argument(call: ast.Call, place: int, name: str) -> ast.expr | None:
    given = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
    if given is None and len(call.args) > place and not any(isinstance(a, ast.Starred) for a in call.args):
        return call.args[place]
    return given


def _step(module: Module, call: ast.Call, registers: frozenset[str]) -> Iterator[Broken]:
    if module.means(call.func, _RANGE):
        step = _argument(call, 2, "step")
    elif module.means(call.func, _FORI):
        step = _argument(call, 3, "step")
    else:
        return
    if isinstance(step, ast.Name) and step.id in registers:
        yield "dynamic-loop-step", step, f"the register '{step.id}'"
    elif step is not None and _is_wrong_step(step):
        yield "dynamic-loop-step", step, ast.unparse(step)


def _is_wrong_step(step: ast.expr) -> bool:
    if (
        isinstance(step, ast.UnaryOp)
        and isinstance(step.op, ast.USub)
        and isinstance(step.operand, ast.Constant)
    ):
        return True
    if not isinstance(step, ast.Constant):
        return False
    return not isinstance(step.value, int) or isinstance(step.value, bool) or step.value <= 0


def _body_returns(module: Module, function: Function, call: ast.Call) -> Iterator[Broken]:
    fori = module.means(call.func, _FORI)
    if not fori and not module.means(call.func, _WHILE):
        return
    body = _argument(call, 2 if fori else 1, "body_fun")
    defined = module.function(body.id, function) if isinstance(body, ast.Name) else None
    if defined is None:
        return
    nodes = [node for node in body_nodes(defined.node) if isinstance(node, ast.Return)]
    returned = [(n, n.value) for n in nodes if n.value and not _is_none(n.value)]
    if fori:
        for node, value in returned:
            yield (
                "loop-body-return",
                node,
                f"'return {ast.unparse(value)}' in the fori_loop body '{defined.name}'",
            )
    elif not returned:
        yield "loop-body-return", defined.node, f"a while_loop body '{defined.name}' that returns nothing"
    else:
        for node, value in returned:
            if isinstance(value, ast.Tuple | ast.List | ast.Dict):
                text = ast.unparse(value)
                yield "loop-body-return", node, f"'return {text}' in the while_loop body '{defined.name}'"


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _counted_loops(module: Module, function: Function, nodes: list[ast.AST]) -> Iterator[_Counted]:
    for node in nodes:
        if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
            if _device_loop(module, node, frozenset()):
                yield _Counted(node.target.id, tuple(_below(node.body)))
        elif isinstance(node, ast.Call) and module.means(node.func, _FORI):
            body = _argument(node, 2, "body_fun")
            if isinstance(body, ast.Lambda) and len(body.args.args) == 1:
                yield _Counted(body.args.args[0].arg, tuple(_below([body.body])))
            defined = module.function(body.id, function) if isinstance(body, ast.Name) else None
            if defined is not None and len(defined.parameters()) == 1:
                yield _Counted(defined.parameters()[0].arg, tuple(body_nodes(defined.node)))


def _below(nodes: list[ast.stmt] | list[ast.expr]) -> Iterator[ast.AST]:
    for node in nodes:
        yield from ast.walk(node)


def _variable(module: Module, loop: _Counted) -> Iterator[Broken]:
    """Writes to the variable, and Python that would need its value."""
    name = loop.variable
    if any(
        isinstance(n, ast.For) and isinstance(n.target, ast.Name) and n.target.id == name for n in loop.body
    ):
        return  # an inner loop takes the name over
    for node in loop.body:
        if isinstance(node, ast.Call) and module.means(node.func, *_WRITES):
            if _is(_argument(node, 0, "dst"), name):
                yield "loop-variable-write", node, f"'{ast.unparse(node.func)}' into '{name}'"
        elif _computes_with(node, name):
            yield "loop-variable-in-python", node, f"'{ast.unparse(node)}'"
        elif isinstance(node, ast.If | ast.IfExp | ast.Assert | ast.While) and _tests(node.test, name):
            yield "loop-variable-in-python", node.test, f"a test of '{ast.unparse(node.test)}'"


def _is(node: ast.expr | None, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _computes_with(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.BinOp):
        return _is(node.left, name) or _is(node.right, name)
    if isinstance(node, ast.UnaryOp):
        return _is(node.operand, name) and not isinstance(node.op, ast.Not)
    return isinstance(node, ast.AugAssign) and (_is(node.target, name) or _is(node.value, name))


def _tests(test: ast.expr, name: str) -> bool:
    if isinstance(test, ast.BoolOp):
        return any(_tests(value, name) for value in test.values)
    if isinstance(test, ast.UnaryOp):
        return _tests(test.operand, name)
    if isinstance(test, ast.Compare):
        return any(_is(each, name) for each in [test.left, *test.comparators])
    return _is(test, name)
