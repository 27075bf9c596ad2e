"""A program survives its way to disk and back, and nothing else is taken for one."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from program_cases import Draft, programs

from twintrack.compiler.ir import FORMAT, Program, TensorType
from twintrack.errors import InvalidProgram


def _same(left, right):
    """Equality in which a NaN equals itself."""
    return repr(left) == repr(right)


@settings(max_examples=60, deadline=None)
@given(programs())
def test_any_program_comes_back_from_json_as_it_was(program):
    again = Program.from_json(program.to_json())
    assert _same(again, program)
    assert again.to_json() == program.to_json()


@given(
    st.one_of(
        st.integers(-(2**63), 2**63 - 1),
        st.floats(),
        st.booleans(),
        st.text(),
        st.lists(st.integers()).map(tuple),
    )
)
def test_every_kind_of_attribute_keeps_value_and_type(value):
    draft = Draft()
    program = draft.program(draft.emit("constant", dtype="f32", shape=(), value=value))
    found = Program.from_json(program.to_json()).main.body[0].attributes["value"]
    assert type(found) is type(value)
    assert _same(found, value)


def test_json_on_disk_is_strict_json():
    """No ``Infinity`` or ``NaN``, which are no JSON; a masked position is filled with minus infinity."""
    draft = Draft()
    values = [draft.emit("constant", dtype="f32", shape=(), value=v) for v in (math.inf, -math.inf, math.nan)]

    def refuse(name):
        raise AssertionError(f"{name} is no JSON")

    json.loads(draft.program(*values).to_json(), parse_constant=refuse)


def _stored():
    draft = Draft()
    x = draft.input("f32", 2, 3)
    return json.loads(draft.program(draft.emit("add", x, dtype="f32", scalar=1.5, side="right")).to_json())


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("format",), FORMAT + 1),
        (("format",), "1"),
        (("program", "entry"), 3),
        (("program", "functions"), []),
        (("program", "functions", "main", "types", 0, "dtype"), "f64"),
        (("program", "functions", "main", "types", 0, "shape"), ["2", 3]),
        (("program", "functions", "main", "types", 0, "shape"), [2.0, 3]),
        (("program", "functions", "main", "types", 0, "shape"), [True, 3]),
        (("program", "functions", "main", "body", 0, "inputs"), "0"),
        (("program", "functions", "main", "body", 0, "attributes"), None),
        (("program", "functions", "main", "body", 0, "attributes", "scalar"), None),
        (("program", "functions", "main", "body", 0, "attributes", "scalar"), {"float": "1.5"}),
        (("program", "functions", "main", "body", 0, "attributes", "scalar"), {"float": []}),
        (("program", "functions", "main", "body", 0, "attributes", "scalar"), [1.5]),
        (("program", "functions", "main", "body", 0, "note"), "more"),
        (("program", "input_paths"), None),
        (("comment",), "more"),
    ],
)
def test_what_is_not_of_the_form_is_refused(path, value):
    stored = _stored()
    place = stored
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(InvalidProgram) as caught:
        Program.from_json(json.dumps(stored).encode())
    assert "\n" not in str(caught.value)


@given(st.binary(max_size=60))
def test_bytes_that_are_no_program_are_refused(data):
    with pytest.raises(InvalidProgram):
        Program.from_json(data)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_a_cut_program_is_refused(position):
    data = json.dumps(_stored()).encode()
    with pytest.raises(InvalidProgram):
        Program.from_json(data[: position % len(data)])


def test_a_deeply_nested_result_is_refused_or_read_but_never_overflows():
    stored = json.dumps(_stored()).replace('"result": [0]', '"result": ' + "[" * 5000 + "]" * 5000)
    with pytest.raises(InvalidProgram):
        Program.from_json(stored.encode())


def test_a_program_prints_with_types_attributes_and_lines():
    draft = Draft()
    x = draft.input("bf16", 2, 3)
    y = draft.emit("neg", x, dtype="bf16", line="llama.py:7")
    z = draft.emit("sum", y, dtype="f32", axes=(1,), keep=False, line="llama.py:8")
    assert str(draft.program(z)) == (
        "function main(%0: bf16[2x3]):\n"
        "  %1: bf16[2x3] = neg(%0)  # llama.py:7\n"
        "  %2: f32[2] = sum(%1) {axes=(1,), keep=False}  # llama.py:8\n"
        "  return %2"
    )


def test_types_know_their_size():
    kind = TensorType("bf16", (3, 5))
    assert (kind.numel, kind.nbytes, kind.is_float, str(kind)) == (15, 30, True, "bf16[3x5]")
    assert (TensorType("i64", ()).nbytes, TensorType("u8", (0, 4)).nbytes) == (8, 0)
