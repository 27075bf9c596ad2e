"""Every rule of the IR, broken once: refused with a message that says which, where, and what was there instead."""

from __future__ import annotations

import dataclasses

import pytest
from program_cases import Draft

from twintrack.compiler.ir import Function, Operator, Program, TensorType
from twintrack.compiler.verify import MAX_CALL_DEPTH, verify
from twintrack.errors import InvalidProgram

F = TensorType("f32", (2, 3))


def _program(*operators, types=(F,), inputs=(0,), outputs=(0,), **changes):
    function = Function("main", tuple(types), tuple(inputs), tuple(outputs), tuple(operators))
    fields = {"functions": {"main": function}, "input_paths": tuple("x" for _ in inputs), "result": [0]}
    return Program("test", "main", **{**fields, **changes})


def _op(name, inputs=(0,), outputs=(1,), line="m.py:1", **attributes):
    return Operator(name, inputs, outputs, attributes, line)


def _of(dtype, *shape):
    return TensorType(dtype, shape)


def _one(name, operand_types, result, **attributes):
    """A program of one operator."""
    count = len(operand_types)
    op = _op(name, tuple(range(count)), (count,), **attributes)
    return _program(op, types=(*operand_types, result), inputs=range(count), outputs=(count,))


WHOLE, B, H = _of("i64", 2, 3), _of("bool", 2, 3), _of("bf16", 2, 3)
BROKEN = {
    "no entry": (_program(functions={}), "an entry function 'main'"),
    "another name": (_program(functions={"main": Function("x", (F,), (0,), (0,), ())}), "under its own name"),
    "too few paths": (_program(input_paths=()), "1 input paths"),
    "leaf too high": (_program(result={"a": [0, 1]}), r"result leaves from 0 below 1, found \[0, 1\]"),
    "negative leaf": (_program(result=[-1]), "result leaves"),
    "leaf of text": (_program(result=["a"]), "dicts, lists and numbers, found str"),
    "leaf of truth": (_program(result=True), "dicts, lists and numbers, found bool"),
    "size below 0": (_program(types=(_of("f32", -1),)), "sizes from 0"),
    "too many axes": (_program(types=(_of("f32", *[1] * 17),)), "at most 16 axes"),
    "too large": (_program(types=(_of("f32", 2**30, 2**30),)), "bytes, found value 0"),
    "too large though empty": (_program(types=(_of("f32", 0, 2**62),)), "bytes, found value 0"),
    "input twice": (_program(inputs=(0, 0)), "every value defined once, found value 0 again"),
    "input out of range": (_program(inputs=(1,)), "values from 0 below 1, found 1"),
    "negative input": (_program(inputs=(-1,)), "values from 0 below 1, found -1"),
    "operand undefined": (
        _program(_op("neg", (1,)), types=(F, F)),
        "defined before their use, found value 1",
    ),
    "operand negative": (_program(_op("neg", (-1,)), types=(F, F)), "before their use, found value -1"),
    "result twice": (_program(_op("neg", (0,), (0,))), "defined once, found value 0 again"),
    "result out of range": (_program(_op("neg", (0,), (7,))), "values from 0 below 1, found 7"),
    "value without operator": (_program(types=(F, F)), "every value defined, found value 1 without"),
    "output undefined": (_program(outputs=(3,)), "outputs that are defined, found value 3"),
    "no line": (_program(_op("neg", line=""), types=(F, F)), r"\(no line\).*no source line"),
    "unknown operator": (_one("cumsum", [F], F), "unknown operator 'cumsum'"),
    "two results": (_program(_op("neg", (0,), (1, 2)), types=(F, F, F)), "one result expected, got 2"),
    "no result": (_program(_op("neg", (0,), ())), "one result expected, got 0"),
    "too many operands": (_one("neg", [F, F], F), "1 operands expected, got 2"),
    "no operands": (_one("concat", [], F, axis=0), "one or more operands expected, got 0"),
    "wrong shape": (_one("neg", [F], _of("f32", 3, 2)), r"result shape \(2, 3\) expected, got \(3, 2\)"),
    "operands that do not fit": (_one("matmul", [F, F], F), "cannot be multiplied"),
    "attribute missing": (_one("softmax", [F], F), r"attributes \['axis'\] expected, got \[\]"),
    "attribute too many": (_one("neg", [F], F, axis=1), r"attributes \[\] expected, got \['axis'\]"),
    "attribute of another kind": (
        _one("softmax", [F], F, axis=1.0),
        "an integer expected as 'axis', got 1.0",
    ),
    "truth for a number": (_one("softmax", [F], F, axis=True), "an integer expected as 'axis'"),
    "number for a truth": (_one("sum", [F], F, axes=(), keep=0), "true or false expected as 'keep'"),
    "number for numbers": (_one("transpose", [F], F, order=1), "integers expected as 'order'"),
    "negative size": (_one("reshape", [F], F, shape=(-2, -3)), "sizes from 0 expected as 'shape'"),
    "unknown side": (_one("add", [F], F, scalar=1.0, side="middle"), "left or right expected as 'side'"),
    "scalar without side": (_one("add", [F], F, scalar=1.0), r"\['scalar', 'side'\] expected"),
    "scalar and two operands": (_one("add", [F, F], F, scalar=1.0, side="left"), r"attributes \[\] expected"),
    "text for a scalar": (_one("add", [F], F, scalar="1", side="left"), "a number expected as 'scalar'"),
    "unknown approximation": (_one("gelu", [F], F, approximate="sigmoid"), "none or tanh expected"),
    "operand type": (_one("silu", [WHOLE], F), "operand 0 of bf16, f16, f32 expected, got i64"),
    "second operand type": (
        _one("take_rows", [F, _of("f32", 5)], _of("f32", 5, 3)),
        "operand 1 of i32, i64 expected, got f32",
    ),
    "condition type": (_one("select", [F, F, F], F), "operand 0 of bool expected, got f32"),
    "scalar kind": (
        _one("bit_and", [WHOLE], WHOLE, scalar=1.0, side="right"),
        "a scalar of .* expected, got 1.0",
    ),
    "scalar too large": (
        _one("add", [_of("u8", 2)], _of("u8", 2), scalar=256, side="right"),
        "a scalar that u8 can hold expected, got 256",
    ),
    "scalar beyond float32": (_one("mul", [F], F, scalar=1e300, side="right"), "that f32 can hold"),
    "negative power of integers": (
        _one("pow", [WHOLE], WHOLE, scalar=-1, side="right"),
        "power from 0 expected",
    ),
    "division by 0": (_one("remainder", [WHOLE], WHOLE, scalar=0, side="right"), "divisor other than 0"),
    "float result of integers": (
        _one("add", [WHOLE, WHOLE], F),
        "a result of i32, i64, u8 expected, got f32",
    ),
    "integer result of floats": (
        _one("add", [F, WHOLE], WHOLE),
        "a result of bf16, f16, f32 expected, got i64",
    ),
    "truth result of floats": (_one("add", [F, F], B), "a result of bf16, f16, f32 expected, got bool"),
    "sum of truths": (_one("sum", [B], _of("bool"), axes=(0, 1), keep=False), "i32, i64, u8 expected"),
    "comparison that is no truth": (_one("lt", [F, F], F), "a result of bool expected"),
    "view of another type": (
        _one("reshape", [F], _of("bf16", 6), shape=(6,)),
        "one type for operands and result",
    ),
    "join of two types": (
        _one("concat", [F, H], _of("f32", 4, 3), axis=0),
        "one type for operands and result",
    ),
    "product of integers": (_one("matmul", [_of("i64", 2, 2)] * 2, _of("i64", 2, 2)), "operand 0 of bf16"),
    "fraction as integer": (_one("constant", [], WHOLE, shape=(2, 3), value=1.5), "that i64 can hold"),
    "value too large": (_one("constant", [], F, shape=(2, 3), value=2**70), "that f32 can hold"),
    "largest of nothing": (
        _one("amax", [_of("f32", 0, 3)], _of("f32", 3), axes=(0,), keep=False),
        "the largest of no elements",
    ),
    "no function called": (_one("call", [F], F), r"attributes \['function'\] expected"),
    "unknown function called": (_one("call", [F], F, function="f"), "no function 'f'"),
    "call of itself": (
        _one("call", [H], H, function="main"),
        "functions that do not call themselves, found main",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_rule_is_named(case):
    program, message = BROKEN[case]
    with pytest.raises(InvalidProgram, match=message) as caught:
        verify(program)
    assert "\n" not in str(caught.value)
    assert caught.value.remedy == "capture the program again"


def test_the_program_that_the_cases_change_is_whole():
    verify(_program())
    verify(_one("neg", [F], F))


def test_an_operator_is_named_with_its_place_and_line():
    with pytest.raises(InvalidProgram, match=r"program main, operator 0 'neg' \(llama.py:9\): required"):
        verify(_program(_op("neg", line="llama.py:9", axis=1), types=(F, F)))


def _caller(name, callee):
    draft = Draft(name)
    return draft.function(*draft.call(callee, draft.input("f32", 2)))


def _leaf(name="leaf"):
    draft = Draft(name)
    return draft.function(draft.emit("neg", draft.input("f32", 2), dtype="f32"))


def _of_functions(functions):
    return Program("test", functions[-1].name, {f.name: f for f in functions}, ("x",), [0])


def test_recursion_is_refused():
    a, b = _caller("a", _leaf("b")), _caller("b", _leaf("a"))
    with pytest.raises(InvalidProgram, match="do not call themselves"):
        verify(_of_functions([a, b]))


def test_calls_may_be_deep_but_not_too_deep():
    functions = [_leaf()]
    while len(functions) < MAX_CALL_DEPTH:
        functions.append(_caller(f"f{len(functions)}", functions[-1]))
    verify(_of_functions(functions))
    functions.append(_caller("one more", functions[-1]))
    with pytest.raises(InvalidProgram, match=f"at most {MAX_CALL_DEPTH} deep"):
        verify(_of_functions(functions))
    with pytest.raises(InvalidProgram, match=f"at most {MAX_CALL_DEPTH} deep"):
        verify(_of_functions(functions[::-1] + functions[-1:]))


def test_a_program_that_would_never_end_is_refused():
    """Each function calls the one before it three times: 3**31 operators, more than stochastic rounding can number."""
    functions = [_leaf()]
    for depth in range(1, 32):
        draft = Draft(f"f{depth}")
        value = draft.input("f32", 2)
        for _ in range(3):
            (value,) = draft.call(functions[-1], value)
        functions.append(draft.function(value))
    with pytest.raises(InvalidProgram, match="fewer than 4294967296 operators"):
        verify(_of_functions(functions))


def test_a_callee_with_other_types_is_refused():
    caller = _caller("main", _leaf())
    other = Draft("leaf")
    leaf = other.function(other.emit("neg", other.input("bf16", 2), dtype="bf16"))
    with pytest.raises(InvalidProgram, match="operands do not fit the inputs of leaf"):
        verify(_of_functions([leaf, caller]))
    fewer = dataclasses.replace(_leaf(), outputs=())
    with pytest.raises(InvalidProgram, match="results do not fit the outputs of leaf"):
        verify(_of_functions([fewer, caller]))
