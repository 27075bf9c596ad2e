"""The rules that every program keeps, checked after capture and after every read from disk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twintrack.compiler.hostcall import HOST_NAME, host_call_is_legal
from twintrack.compiler.ir import Function, Operator, Program, TensorType
from twintrack.compiler.operators import OPERATORS, OperatorSpec
from twintrack.errors import InvalidProgram

__all__ = ["verify"]


def verify(program: Program) -> None:
    """Check a whole program.

    Raises:
        InvalidProgram: naming function, operator and line, on the first rule that is broken.
    """
    if program.entry not in program.functions:
        raise _broken(f"an entry function '{program.entry}'", "none", program.name)
    for name, function in program.functions.items():
        if name != function.name:
            raise _broken(f"function '{name}' under its own name", f"'{function.name}'", program.name)
        _verify_function(function, program.functions)
    _refuse_recursion(program)
    main = program.main
    if len(program.input_paths) != len(main.inputs):
        raise _broken(f"{len(main.inputs)} input paths", str(len(program.input_paths)), program.name)
    leaves = sorted(set(_leaves(program.result)))
    if leaves and (leaves[0] < 0 or leaves[-1] >= len(main.outputs)):
        raise _broken(f"result leaves below {len(main.outputs)}", str(leaves[-1]), program.name)


def _broken(required: str, found: str, where: str) -> InvalidProgram:
    return InvalidProgram(required, found=found, where=f"program {where}", remedy="capture the program again")


def _leaves(tree: Any) -> list[int]:
    if isinstance(tree, dict):
        return [leaf for item in tree.values() for leaf in _leaves(item)]
    if isinstance(tree, list | tuple):
        return [leaf for item in tree for leaf in _leaves(item)]
    if isinstance(tree, int) and not isinstance(tree, bool):
        return [tree]
    raise _broken("a result of dicts, lists and numbers", type(tree).__name__, "result")


def _verify_function(function: Function, functions: Mapping[str, Function]) -> None:
    defined: set[int] = set()
    for value in function.inputs:
        _define(value, defined, function, "an input")
    for index, op in enumerate(function.body):
        where = f"{function.name}, operator {index} '{op.name}' ({op.line})"
        for value in op.inputs:
            if value not in defined:
                raise _broken("operands defined before their use", f"value {value}", where)
        for value in op.outputs:
            _define(value, defined, function, where)
        try:
            _verify_operator(op, function.types, functions)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise _broken("operands and attributes that fit the operator", repr(error), where) from error
    for value in function.outputs:
        if value not in defined:
            raise _broken("outputs that are defined", f"value {value}", function.name)


def _define(value: int, defined: set[int], function: Function, where: str) -> None:
    if not 0 <= value < len(function.types):
        raise _broken(f"values below {len(function.types)}", str(value), f"{function.name}, {where}")
    if value in defined:
        raise _broken("every value defined once", f"value {value} again", f"{function.name}, {where}")
    defined.add(value)


def _verify_operator(
    op: Operator, types: tuple[TensorType, ...], functions: Mapping[str, Function]
) -> None:
    operands = [types[value] for value in op.inputs]
    results = [types[value] for value in op.outputs]
    if op.name == "call":
        _verify_call(op, operands, results, functions)
        return
    if op.name == HOST_NAME:
        if not host_call_is_legal(op):
            raise ValueError("a functional ATen operator by its name, with plain arguments")
        return
    spec = OPERATORS.get(op.name)
    if spec is None:
        raise ValueError(f"unknown operator '{op.name}'")
    if len(results) != 1:
        raise ValueError(f"one result expected, got {len(results)}")
    _verify_operand_count(spec, op)
    shape = spec.shape([t.shape for t in operands], op.attributes)
    if shape != results[0].shape:
        raise ValueError(f"result shape {shape} expected, got {results[0].shape}")
    _verify_dtype(spec, operands, results[0])


def _verify_operand_count(spec: OperatorSpec, op: Operator) -> None:
    count = len(op.inputs)
    if (spec.operands and count not in spec.operands) or (not spec.operands and count == 0):
        raise ValueError(f"{spec.operands or 'one or more'} operands expected, got {count}")
    if spec.operands == (1, 2):
        if count == 1 and (op.attributes["side"] not in ("left", "right") or "scalar" not in op.attributes):
            raise ValueError("one operand needs a scalar and its side")
        if count == 2 and "scalar" in op.attributes:
            raise ValueError("two operands leave no room for a scalar")


def _verify_call(
    op: Operator, operands: list[TensorType], results: list[TensorType], functions: Mapping[str, Function]
) -> None:
    callee = functions[str(op.attributes["function"])]
    if operands != [callee.types[v] for v in callee.inputs]:
        raise ValueError(f"operands do not fit the inputs of {callee.name}")
    if results != [callee.types[v] for v in callee.outputs]:
        raise ValueError(f"results do not fit the outputs of {callee.name}")


def _verify_dtype(spec: OperatorSpec, operands: list[TensorType], result: TensorType) -> None:
    if spec.result == "bool" and result.dtype != "bool":
        raise ValueError(f"a bool result expected, got {result.dtype}")
    if spec.result == "integer" and (result.is_float or result.dtype == "bool"):
        raise ValueError(f"an integer result expected, got {result.dtype}")
    if spec.result == "float" and not (result.is_float and all(t.is_float for t in operands)):
        raise ValueError("floating-point operands and result expected")
    if spec.kind == "view" and result.dtype != operands[0].dtype:
        raise ValueError(f"a view of {operands[0].dtype} cannot be {result.dtype}")
    if spec.name in ("take_rows", "gather", "add_rows", "scatter_add") and operands[1].dtype not in ("i64", "i32"):
        raise ValueError(f"integer indices expected, got {operands[1].dtype}")
    if spec.name == "select" and operands[0].dtype != "bool":
        raise ValueError(f"a bool condition expected, got {operands[0].dtype}")


def _refuse_recursion(program: Program) -> None:
    state: dict[str, bool] = {}  # False while a function is being walked, True once it is known to end

    def walk(name: str) -> None:
        if state.get(name) is False:
            raise _broken("functions that do not call themselves", name, program.name)
        if name in state:
            return
        state[name] = False
        for op in program.functions[name].body:
            if op.name == "call":
                walk(str(op.attributes["function"]))
        state[name] = True

    for name in program.functions:
        walk(name)
