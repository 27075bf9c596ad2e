"""The rules that every program keeps, checked after capture and after every read from disk.

A program that passes runs on inputs of its own types without an error, but for numbers in the data: an index beyond
its table, or an integer division by zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from twintrack.compiler.hostcall import HOST_NAME, host_result_types
from twintrack.compiler.ir import DTYPE_BYTES, Function, Operator, Program, TensorType
from twintrack.compiler.operators import BOOL, FLOAT, INTEGER, OPERATORS, Dtypes, OperatorSpec, fits, kind_of
from twintrack.errors import InvalidProgram

__all__ = ["MAX_CALL_DEPTH", "MAX_OPERATORS", "MAX_RANK", "MAX_VALUE_BYTES", "verify"]

MAX_RANK = 16
MAX_VALUE_BYTES = 1 << 46
"""Largest value: 64 TiB, so that no size or address overflows."""
MAX_CALL_DEPTH = 32
MAX_OPERATORS = 1 << 32
"""Operators of one execution: the executor numbers them for stochastic rounding."""


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
    _verify_calls(program)
    main = program.main
    if len(program.input_paths) != len(main.inputs):
        raise _broken(f"{len(main.inputs)} input paths", str(len(program.input_paths)), program.name)
    leaves = _leaves(program.result)
    if any(not 0 <= leaf < len(main.outputs) for leaf in leaves):
        raise _broken(f"result leaves from 0 below {len(main.outputs)}", str(sorted(leaves)), program.name)


def _broken(required: str, found: str, where: str) -> InvalidProgram:
    return InvalidProgram(required, found=found, where=f"program {where}", remedy="capture the program again")


def _leaves(tree: Any) -> list[int]:
    found, left = [], [tree]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            left.extend(node.values())
        elif isinstance(node, list | tuple):
            left.extend(node)
        elif isinstance(node, int) and not isinstance(node, bool):
            found.append(node)
        else:
            raise _broken("a result of dicts, lists and numbers", type(node).__name__, "result")
    return found


def _verify_function(function: Function, functions: Mapping[str, Function]) -> None:
    for value, kind in enumerate(function.types):
        if not _possible(kind):
            limit = f"at most {MAX_RANK} axes of sizes from 0, and {MAX_VALUE_BYTES} bytes"
            raise _broken(limit, f"value {value} of type {kind}", function.name)
    defined: set[int] = set()
    for value in function.inputs:
        _define(value, defined, function, "an input")
    for index, op in enumerate(function.body):
        where = f"{function.name}, operator {index} '{op.name}' ({op.line or 'no line'})"
        for value in op.inputs:
            if value not in defined:
                raise _broken("operands defined before their use", f"value {value}", where)
        for value in op.outputs:
            _define(value, defined, function, where)
        try:
            _verify_operator(op, function.types, functions)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise _broken("operands and attributes that fit the operator", str(error), where) from error
    if len(defined) != len(function.types):
        missing = next(value for value in range(len(function.types)) if value not in defined)
        raise _broken("every value defined", f"value {missing} without an operator", function.name)
    for value in function.outputs:
        if value not in defined:
            raise _broken("outputs that are defined", f"value {value}", function.name)


def _possible(kind: TensorType) -> bool:
    size = math.prod(max(n, 1) for n in kind.shape) * DTYPE_BYTES[kind.dtype]
    return len(kind.shape) <= MAX_RANK and min(kind.shape, default=0) >= 0 and size <= MAX_VALUE_BYTES


def _define(value: int, defined: set[int], function: Function, where: str) -> None:
    if not 0 <= value < len(function.types):
        raise _broken(f"values from 0 below {len(function.types)}", str(value), f"{function.name}, {where}")
    if value in defined:
        raise _broken("every value defined once", f"value {value} again", f"{function.name}, {where}")
    defined.add(value)


def _verify_operator(op: Operator, types: tuple[TensorType, ...], functions: Mapping[str, Function]) -> None:
    operands = [types[value] for value in op.inputs]
    results = [types[value] for value in op.outputs]
    if not op.line:
        raise ValueError("no source line")
    if op.name == "call":
        _verify_call(op, operands, results, functions)
        return
    if op.name == HOST_NAME:
        _verify_attributes(("aten", "arguments"), op)
        expected = host_result_types(op, operands)
        if results != expected:
            raise ValueError(f"results {_show(expected)} expected, got {_show(results)}")
        return
    spec = OPERATORS.get(op.name)
    if spec is None:
        raise ValueError(f"unknown operator '{op.name}'")
    if len(results) != 1:
        raise ValueError(f"one result expected, got {len(results)}")
    _verify_operand_count(spec, op)
    scalar = spec.operands == (1, 2) and len(operands) == 1
    _verify_attributes((*spec.attributes, *(("scalar", "side") if scalar else ())), op)
    shape = spec.shape([t.shape for t in operands], op.attributes)
    if shape != results[0].shape:
        raise ValueError(f"result shape {shape} expected, got {results[0].shape}")
    _verify_operand_dtypes(spec, operands)
    if scalar:
        _verify_scalar(spec, op, operands[0])
    _verify_result_dtype(spec, op, operands, results[0])


def _show(types: list[TensorType]) -> str:
    return ", ".join(map(str, types))


def _verify_operand_count(spec: OperatorSpec, op: Operator) -> None:
    count = len(op.inputs)
    if (spec.operands and count not in spec.operands) or (not spec.operands and count == 0):
        wanted = " or ".join(map(str, spec.operands)) or "one or more"
        raise ValueError(f"{wanted} operands expected, got {count}")


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_integers(value: Any) -> bool:
    return isinstance(value, tuple) and all(_is_integer(item) for item in value)


_ATTRIBUTES: Mapping[str, tuple[str, Callable[[Any], bool]]] = MappingProxyType(
    {
        **dict.fromkeys(
            ("axis", "start", "stop", "step", "before", "after", "rows", "count"), ("an integer", _is_integer)
        ),
        **dict.fromkeys(("axes", "order"), ("integers", _is_integers)),
        "shape": ("sizes from 0", lambda v: _is_integers(v) and min(v, default=0) >= 0),
        "keep": ("true or false", lambda v: isinstance(v, bool)),
        **dict.fromkeys(("value", "scalar"), ("a number", lambda v: isinstance(v, int | float))),
        "side": ("left or right", lambda v: v in ("left", "right")),
        "approximate": ("none or tanh", lambda v: v in ("none", "tanh")),
        **dict.fromkeys(("function", "aten", "arguments"), ("text", lambda v: isinstance(v, str))),
    }
)


def _verify_attributes(names: tuple[str, ...], op: Operator) -> None:
    if set(op.attributes) != set(names):
        raise ValueError(f"attributes {sorted(names)} expected, got {sorted(op.attributes)}")
    for name in names:
        wanted, legal = _ATTRIBUTES[name]
        if not legal(op.attributes[name]):
            raise ValueError(f"{wanted} expected as '{name}', got {op.attributes[name]!r}")


def _verify_call(
    op: Operator, operands: list[TensorType], results: list[TensorType], functions: Mapping[str, Function]
) -> None:
    _verify_attributes(("function",), op)
    callee = functions.get(str(op.attributes["function"]))
    if callee is None:
        raise ValueError(f"no function '{op.attributes['function']}'")
    if operands != [callee.types[v] for v in callee.inputs]:
        raise ValueError(f"operands do not fit the inputs of {callee.name}")
    if results != [callee.types[v] for v in callee.outputs]:
        raise ValueError(f"results do not fit the outputs of {callee.name}")


def _verify_operand_dtypes(spec: OperatorSpec, operands: list[TensorType]) -> None:
    for position, operand in enumerate(operands):
        takes = spec.takes[min(position, len(spec.takes) - 1)]
        if operand.dtype not in takes:
            raise ValueError(
                f"operand {position} of {', '.join(sorted(takes))} expected, got {operand.dtype}"
            )


def _verify_scalar(spec: OperatorSpec, op: Operator, operand: TensorType) -> None:
    scalar: Any = op.attributes["scalar"]
    kind = kind_of(scalar)
    if not kind <= spec.takes[-1]:
        raise ValueError(f"a scalar of {', '.join(sorted(spec.takes[-1]))} expected, got {scalar!r}")
    if not fits(scalar, operand.dtype):
        raise ValueError(f"a scalar that {operand.dtype} can hold expected, got {scalar!r}")
    integers = kind_of(operand.dtype) is not FLOAT and kind is not FLOAT
    if op.attributes["side"] == "right" and integers:
        if spec.name == "pow" and scalar < 0:
            raise ValueError(f"an integer power from 0 expected, got {scalar!r}")
        if spec.name == "remainder" and scalar == 0:
            raise ValueError("a divisor other than 0 expected")


def _verify_result_dtype(
    spec: OperatorSpec, op: Operator, operands: list[TensorType], result: TensorType
) -> None:
    data = [t.dtype for position, t in enumerate(operands) if position not in spec.selectors]
    if spec.result == "same":
        if set(data) != {result.dtype}:
            raise ValueError(f"one type for operands and result expected, got {data} and {result.dtype}")
        return
    wanted = _result_kind(spec, [*data, *([op.attributes["scalar"]] if "scalar" in op.attributes else [])])
    if result.dtype not in wanted:
        raise ValueError(f"a result of {', '.join(sorted(wanted))} expected, got {result.dtype}")
    if spec.name == "constant":
        value: Any = op.attributes["value"]
        order = (BOOL, INTEGER, FLOAT)
        if order.index(kind_of(value)) > order.index(kind_of(result.dtype)) or not fits(value, result.dtype):
            raise ValueError(f"a value that {result.dtype} can hold expected, got {value!r}")


def _result_kind(spec: OperatorSpec, data: list[Any]) -> Dtypes:
    fixed: dict[str, Dtypes] = {
        "float": FLOAT,
        "bool": BOOL,
        "integer": INTEGER,
        "any": BOOL | INTEGER | FLOAT,
    }
    if spec.result in fixed:
        return fixed[spec.result]
    order = (BOOL, INTEGER, FLOAT)
    widest = max(order.index(kind_of(item)) for item in data)
    return order[max(widest, 1) if spec.result == "number" else widest]


def _verify_calls(program: Program) -> None:
    """Functions do not call themselves, nor too deeply, nor execute more operators than the executor can number."""
    depth: dict[str, int] = {}
    size: dict[str, int] = {}
    open_calls: list[str] = []

    def walk(name: str) -> None:
        if name in open_calls:
            raise _broken("functions that do not call themselves", name, program.name)
        if name in depth:
            return
        if len(open_calls) >= MAX_CALL_DEPTH:
            raise _broken(f"calls at most {MAX_CALL_DEPTH} deep", f"more in {name}", program.name)
        open_calls.append(name)
        called = [str(op.attributes["function"]) for op in program.functions[name].body if op.name == "call"]
        for callee in called:
            walk(callee)
        open_calls.pop()
        depth[name] = 1 + max((depth[callee] for callee in called), default=0)
        size[name] = len(program.functions[name].body) + sum(size[callee] for callee in called)

    for name in program.functions:
        walk(name)
    if max(depth.values()) > MAX_CALL_DEPTH:
        raise _broken(f"calls at most {MAX_CALL_DEPTH} deep", str(max(depth.values())), program.name)
    if size[program.entry] >= MAX_OPERATORS:
        raise _broken(f"fewer than {MAX_OPERATORS} operators", str(size[program.entry]), program.name)
