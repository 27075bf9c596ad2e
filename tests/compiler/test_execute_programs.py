"""Execution of whole programs: calls, results that are inputs, arguments that do not fit, inputs left as they were."""

from __future__ import annotations

import weakref

import pytest
import torch
from program_cases import Draft

from twintrack.compiler import execute
from twintrack.compiler.execute import Executor
from twintrack.compiler.verify import verify
from twintrack.numerics.rounding import NearestEven


def _run(program, *inputs):
    verify(program)
    return Executor(program, NearestEven()).run(inputs, invocation=0)


def _affine(name="affine"):
    """``2x + 1``, and ``2x``."""
    draft = Draft(name)
    doubled = draft.emit("mul", draft.input("f32", 3), dtype="f32", scalar=2.0, side="right")
    return draft.function(draft.emit("add", doubled, dtype="f32", scalar=1.0, side="left"), doubled)


def test_functions_are_called_with_their_own_values_each_time():
    draft = Draft()
    value = draft.input("f32", 3)
    for _ in range(3):
        value, doubled = draft.call(_affine(), value)
    final, before = _run(draft.program(value, doubled, others=[_affine()]), torch.tensor([0.0, 1.0, -1.0]))
    assert final.tolist() == [7.0, 15.0, -1.0]
    assert before.tolist() == [6.0, 14.0, -2.0]


def test_an_input_may_be_a_result_and_a_result_may_stand_twice():
    draft = Draft()
    x = draft.input("f32", 2)
    y = draft.emit("neg", x, dtype="f32")
    results = _run(draft.program(x, y, y, x), torch.tensor([1.0, 2.0]))
    assert [r.tolist() for r in results] == [[1.0, 2.0], [-1.0, -2.0], [-1.0, -2.0], [1.0, 2.0]]


def test_inputs_are_left_as_they_were():
    draft = Draft()
    x, ids = draft.input("f32", 4, 3), draft.input("i64", 4)
    total = draft.emit("add_rows", x, ids, dtype="f32", rows=4)
    padded = draft.emit("pad", x, dtype="f32", axis=0, before=1, after=1)
    cut = draft.emit("slice", padded, dtype="f32", axis=0, start=1, stop=5, step=1)
    tensor, before = torch.arange(12.0).reshape(4, 3), torch.arange(12.0).reshape(4, 3)
    _run(
        draft.program(total, draft.emit("add", cut, total, dtype="f32")),
        tensor,
        torch.zeros(4, dtype=torch.long),
    )
    assert torch.equal(tensor, before)


def test_strides_of_inputs_do_not_matter():
    draft = Draft()
    x = draft.input("f32", 3, 4)
    flat = draft.emit("reshape", x, dtype="f32", shape=(12,))
    tensor = torch.arange(12.0).reshape(4, 3).t()
    assert torch.equal(_run(draft.program(flat), tensor)[0], tensor.reshape(12))


def test_results_carry_no_gradient():
    draft = Draft()
    y = draft.emit("neg", draft.input("f32", 2), dtype="f32")
    assert not _run(draft.program(y), torch.ones(2, requires_grad=True))[0].requires_grad


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ([torch.ones(3)], r"f32\[2\] expected, got torch.float32 \(3,\)"),
        ([torch.ones(2, dtype=torch.bfloat16)], r"f32\[2\] expected, got torch.bfloat16 \(2,\)"),
        ([], "shorter"),
        ([torch.ones(2), torch.ones(2)], "longer"),
    ],
)
def test_inputs_of_other_types_are_refused(tensors, message):
    draft = Draft()
    program = draft.program(draft.emit("neg", draft.input("f32", 2), dtype="f32"))
    with pytest.raises(ValueError, match=message):
        Executor(program, NearestEven()).run(tensors, invocation=0)


def test_values_are_let_go_after_their_last_use(monkeypatch):
    """A chain of 50 operators never holds more than an operand and a result."""
    draft = Draft()
    value = draft.input("f32", 8)
    for _ in range(50):
        value = draft.emit("neg", value, dtype="f32")
    seen, alive = [], []
    original = execute._present

    def counting(tensor):
        seen.append(weakref.ref(tensor))
        alive.append(sum(reference() is not None for reference in seen))
        return original(tensor)

    monkeypatch.setattr(execute, "_present", counting)
    _run(draft.program(value), torch.ones(8))
    assert len(seen) == 51
    assert max(alive) <= 3
