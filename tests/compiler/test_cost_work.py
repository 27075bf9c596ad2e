"""What a program costs: counts, FLOPs and bytes by hand, and a bound that is one."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from program_cases import Draft, programs

from twintrack.compiler.cost import (
    Limits,
    Work,
    bound_seconds,
    boundary_bytes,
    measure_work,
    unfused_seconds,
)
from twintrack.compiler.operators import OPERATORS
from twintrack.torch.capture import capture

LIMITS = Limits({"bf16": 1000.0, "f32": 250.0}, 10.0, "a machine of round numbers")


def _linear_gradients(batch, inner, outer, dtype=torch.bfloat16):
    """Loss of a linear layer and the gradients of input, weight and bias, captured."""
    x, w, b = (torch.empty(s, dtype=dtype) for s in ((batch, inner), (outer, inner), (outer,)))

    def function(x, w, b):
        leaves = [t.detach().requires_grad_(True) for t in (x, w, b)]
        return list(torch.autograd.grad(torch.nn.functional.linear(*leaves).float().sum(), leaves))

    return capture("linear", function, (x, w, b))


@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (3, 5, 7), (8, 2, 1)])
def test_a_linear_layer_costs_three_matmuls(m, k, n):
    """Forward 2MNK, gradient of the input 2MNK, gradient of the weight 2MNK; forward alone is one of them.

    The loss does not depend on the product's value, so its gradients leave only two.
    """
    work = measure_work(_linear_gradients(m, k, n))
    assert work.matmul_flops == 2 * 2 * m * n * k
    x, w = torch.empty(m, k), torch.empty(n, k)
    forward = measure_work(capture("forward", torch.nn.functional.linear, (x, w)))
    assert forward.flops == Counter(matmul=2 * m * n * k)
    assert forward.counts == Counter(matmul=1, transpose=1)
    squared = measure_work(_squared_loss(m, k, n))
    assert squared.matmul_flops == 3 * 2 * m * n * k


def _squared_loss(m, k, n):
    def function(x, w):
        leaves = [t.detach().requires_grad_(True) for t in (x, w)]
        out = torch.nn.functional.linear(*leaves)
        return list(torch.autograd.grad((out * out).sum(), leaves))

    return capture("squared", function, (torch.empty(m, k), torch.empty(n, k)))


def test_flops_of_every_kind_by_hand():
    draft = Draft()
    x, y = draft.input("bf16", 4, 6), draft.input("bf16", 6, 5)
    product = draft.emit("matmul", x, y, dtype="f32")
    soft = draft.emit("softmax", product, dtype="f32", axis=1)
    total = draft.emit("sum", soft, dtype="f32", axes=(1,), keep=False)
    logs = draft.emit("log", total, dtype="f32")
    moved = draft.emit("cast", logs, dtype="bf16")
    work = measure_work(draft.program(moved))
    assert work.flops == Counter(matmul=2 * 4 * 6 * 5, softmax=4 * 20, sum=20, log=4)
    assert work.peak_flops == Counter(bf16=240 + 104)
    assert work.matmul_flops == 240
    assert work.total_flops == 344
    assert (work.operators, work.counts["cast"]) == (5, 1)
    assert work.operator_bytes == (48 + 60 + 80) + (80 + 80) + (80 + 16) + (16 + 16) + (16 + 8)
    assert boundary_bytes(draft.program(moved)) == 48 + 60 + 8


def test_float32_products_count_against_the_float32_peak():
    draft = Draft()
    x, y = draft.input("f32", 2, 2), draft.input("bf16", 2, 2)
    work = measure_work(draft.program(draft.emit("matmul", x, y, dtype="f32")))
    assert work.peak_flops == Counter(f32=16)
    assert LIMITS.peak("f16") == LIMITS.peak("bf16")


def test_views_cost_nothing_and_a_broadcast_value_costs_its_source():
    draft = Draft()
    x, y = draft.input("f32", 10, 1), draft.input("f32", 10, 8)
    wide = draft.emit("broadcast", x, dtype="f32", shape=(10, 8))
    work = measure_work(draft.program(draft.emit("add", wide, y, dtype="f32")))
    assert work.operator_bytes == 40 + 320 + 320
    assert work.counts == Counter(broadcast=1, add=1)


def test_taking_rows_reads_the_rows_and_not_the_table():
    draft = Draft()
    table, ids = draft.input("bf16", 1000, 4), draft.input("i64", 3)
    program = draft.program(draft.emit("take_rows", table, ids, dtype="bf16"))
    assert measure_work(program).operator_bytes == boundary_bytes(program) == 24 + 24 + 24


def test_a_function_counts_once_per_call():
    layer = Draft("layer")
    function = layer.function(layer.emit("exp", layer.input("f32", 5), dtype="f32"))
    draft = Draft()
    value = draft.input("f32", 5)
    for _ in range(7):
        (value,) = draft.call(function, value)
    work = measure_work(draft.program(value, others=[function]))
    assert work.counts == Counter(exp=7)
    assert work.total_flops == 35
    assert work.unfused == (("bf16", 5, 40, 7),)


def test_inputs_nobody_reads_and_inputs_given_back_do_not_move():
    draft = Draft()
    unread, kept, used = draft.input("f32", 100), draft.input("f32", 100), draft.input("f32", 8)
    part = draft.emit("slice", used, dtype="f32", axis=0, start=0, stop=2, step=1)
    result = draft.emit("neg", part, dtype="f32")
    view = draft.emit("reshape", kept, dtype="f32", shape=(10, 10))
    assert unread == 0
    assert boundary_bytes(draft.program(result, kept, view, result)) == 8 + 8


def test_an_input_that_many_read_moves_once():
    draft = Draft()
    x = draft.input("f32", 10)
    turned = draft.emit("reshape", x, dtype="f32", shape=(5, 2))
    one, other = draft.emit("neg", x, dtype="f32"), draft.emit("exp", x, dtype="f32")
    program = draft.program(one, other, draft.emit("abs", turned, dtype="f32"))
    assert boundary_bytes(program) == 40 + 3 * 40
    assert measure_work(program).operator_bytes == 3 * 40 + 3 * 40


def test_of_a_made_value_only_the_part_given_back_moves():
    draft = Draft()
    x = draft.input("f32", 10)
    made = draft.emit("neg", x, dtype="f32")
    parts = [draft.emit("slice", made, dtype="f32", axis=0, start=i, stop=i + 2, step=1) for i in (0, 4)]
    assert boundary_bytes(draft.program(*parts)) == 40 + 16
    assert boundary_bytes(draft.program(*parts, made)) == 40 + 40


def test_what_moves_is_followed_through_calls():
    layer = Draft("layer")
    a, b = layer.input("f32", 4), layer.input("f32", 4)
    made = layer.emit("neg", a, dtype="f32")
    function = layer.function(made, layer.emit("reshape", b, dtype="f32", shape=(2, 2)))
    draft = Draft()
    x, y = draft.input("f32", 4), draft.input("f32", 4)
    first, passed = draft.call(function, x, y)
    program = draft.program(first, passed, others=[function])
    assert boundary_bytes(program) == 16 + 16  # x is read, its negative written; y comes back as it was


def test_bound_and_estimate_by_hand():
    draft = Draft()
    x, y = draft.input("bf16", 10, 10), draft.input("bf16", 10, 10)
    program = draft.program(draft.emit("exp", draft.emit("matmul", x, y, dtype="bf16"), dtype="bf16"))
    work = measure_work(program)
    assert bound_seconds(program, work, LIMITS) == max((2000 + 100) / 1000, 600 / 10)
    assert unfused_seconds(work, LIMITS) == max(2000 / 1000, 600 / 10) + max(100 / 1000, 400 / 10)
    fast = Limits(LIMITS.flops_per_second, 1e9, "")
    assert bound_seconds(program, work, fast) == 2.1


@settings(max_examples=80, deadline=None)
@given(programs(), st.floats(1.0, 1e6), st.floats(1.0, 1e6), st.floats(1.0, 1e6))
def test_the_bound_is_never_above_the_unfused_estimate(program, bf16, f32, bandwidth):
    limits, work = Limits({"bf16": bf16, "f32": f32}, bandwidth, ""), measure_work(program)
    assert bound_seconds(program, work, limits) <= unfused_seconds(work, limits) * (1 + 1e-9)


def test_the_bound_holds_for_programs_with_calls():
    program = _linear_gradients(4, 3, 2)
    work = measure_work(program)
    for bandwidth in (0.1, 10.0, 1e6):
        limits = Limits(LIMITS.flops_per_second, bandwidth, "")
        assert 0 < bound_seconds(program, work, limits) <= unfused_seconds(work, limits)


_COUNTERS = st.dictionaries(st.sampled_from(sorted(OPERATORS)), st.integers(1, 9)).map(Counter)
_COSTS = st.lists(
    st.tuples(st.sampled_from(["bf16", "f32"]), *[st.integers(0, 3)] * 2, st.integers(1, 5)), max_size=3
)
_WORKS = st.builds(
    Work,
    flops=_COUNTERS,
    peak_flops=_COUNTERS,
    matmul_flops=st.integers(0, 9),
    operator_bytes=st.integers(0, 9),
    counts=_COUNTERS,
    host=_COUNTERS,
    host_flops=st.integers(0, 9),
    unfused=_COSTS.map(tuple),
)


@settings(max_examples=40)
@given(_WORKS, _WORKS, _WORKS)
def test_addition_of_work_adds_every_part_in_any_order(a, b, c):
    def parts(work):
        return (
            *(work.flops, work.peak_flops, work.matmul_flops, work.operator_bytes, work.counts, work.host),
            *(work.host_flops, work.total_flops, work.operators),
        )

    assert parts(a + b) == parts(b + a)
    assert parts((a + b) + c) == parts(a + (b + c))
    assert parts(a + Work()) == parts(a)
    assert (a + b).total_flops == a.total_flops + b.total_flops
    assert (a + b).operators == a.operators + b.operators
    total = unfused_seconds(a, LIMITS) + unfused_seconds(b, LIMITS)
    assert unfused_seconds(a + b, LIMITS) == pytest.approx(total)
