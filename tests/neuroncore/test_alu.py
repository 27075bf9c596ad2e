"""Operators, reductions and scans give what a plain Python loop over the documented definition gives."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from twintrack.neuroncore.emulator import alu
from twintrack.neuroncore.isa.operators import OPERATORS

SPECIAL = np.float32(
    [0.0, -0.0, 1.0, -1.0, 1.5, -2.5, 3.0, 1e-45, -1e-40, 3e38, -3e38, np.inf, -np.inf, np.nan]
)
FLOATS = hnp.arrays(
    np.float32, hnp.array_shapes(min_dims=2, max_dims=3, max_side=6), elements=st.floats(width=32)
)
TRUTH = {
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "logical_and": lambda a, b: a != 0 and b != 0,
    "logical_or": lambda a, b: a != 0 or b != 0,
    "logical_xor": lambda a, b: (a != 0) != (b != 0),
}


def python(op, a, b):
    """One element in Python: float64, which rounded to float32 is the float32 result of + - * / of float32."""
    if op in TRUTH:
        return float(TRUTH[op](a, b))
    if op == "abs_max":
        return a if abs(a) > abs(b) else b
    if op == "abs_min":
        return a if abs(a) < abs(b) else b
    if op in ("maximum", "minimum"):
        if math.isnan(a) or math.isnan(b):
            return math.nan
        return max(a, b) if op == "maximum" else min(a, b)
    with np.errstate(all="ignore"):
        a, b = np.float64(a), np.float64(b)
        return float({"add": a + b, "subtract": a - b, "multiply": a * b, "divide": a / b}[op])


def single(values):
    with np.errstate(all="ignore"):
        return np.asarray(values, dtype=np.float64).astype(np.float32)


@pytest.mark.parametrize(
    "op", [*TRUTH, "abs_max", "abs_min", "maximum", "minimum", "add", "subtract", "multiply", "divide"]
)
def test_an_operator_on_every_pair_of_special_numbers(op):
    a, b = (one.copy() for one in np.meshgrid(SPECIAL, SPECIAL))
    want = single(
        [
            [python(op, float(x), float(y)) for x, y in zip(*rows, strict=True)]
            for rows in zip(a, b, strict=True)
        ]
    )
    got = alu.binary(op, a, b)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, want)
    out = np.full_like(a, 7)
    assert alu.binary(op, a, b, out=out) is out
    np.testing.assert_array_equal(out, want)
    alu.binary(op, a, b, out=a)  # in place
    np.testing.assert_array_equal(a, want)


def test_every_operator_with_two_operands_is_computed():
    for name, one in OPERATORS.items():
        if one.operands == 2 and name != "average":
            kind = np.int32 if one.category == "bitvec" else np.float32
            assert alu.binary(name, np.ones((2, 3), kind), np.ones((2, 1), kind)).shape == (2, 3)
    for name in ("average", "nothing", "abs"):
        with pytest.raises(KeyError):
            alu.binary(name, np.ones((2, 3), np.float32), np.ones((2, 3), np.float32))


def test_powers_and_remainders():
    a, b = np.float32([2, 2, -8, 0, 9, 7.5, -7.5]), np.float32([10, -1, 3, 0, 0.5, 2, 2])
    np.testing.assert_array_equal(alu.binary("power", a, b)[:5], [1024, 0.5, -512, 1, 3])
    np.testing.assert_array_equal(alu.binary("mod", a, b)[5:], [1.5, 0.5])  # sign of the divisor
    np.testing.assert_array_equal(alu.binary("fmod", a, b)[5:], [1.5, -1.5])  # sign of the dividend
    assert np.isnan(alu.binary("power", np.float32([-8]), np.float32([0.5]))[0])


def test_integer_arithmetic_is_exact_and_wraps():
    big = np.array([2**24 + 1, 2**31 - 1, -(2**31)], dtype=np.int32)
    np.testing.assert_array_equal(alu.binary("add", big, np.int32(1)), [2**24 + 2, -(2**31), -(2**31) + 1])
    np.testing.assert_array_equal(alu.binary("multiply", big, np.int32(2)), [2**25 + 2, -2, 0])
    np.testing.assert_array_equal(alu.binary("greater", big, np.int32(0)), [1, 1, 0])
    assert alu.binary("greater", big, np.int32(0)).dtype == np.int32
    with pytest.raises(TypeError, match="divide takes float32, not int32"):
        alu.binary("divide", big, big)


@pytest.mark.parametrize("base", [-3, -1, 0, 1, 2, 7])
@pytest.mark.parametrize("exponent", [-3, -2, -1, 0, 1, 5, 40])
def test_integer_powers_are_exact_modulo_the_width_and_cut_to_an_integer(base, exponent):
    want = base**exponent if exponent >= 0 else (0 if base == 0 else math.trunc(base**exponent))
    got = int(alu.binary("power", np.array([base], np.int32), np.array([exponent], np.int32))[0])
    assert (got - want) % 2**32 == 0


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32])
@given(a=st.integers(0, 2**32 - 1), b=st.integers(0, 2**32 - 1), count=st.integers(0, 40))
@settings(max_examples=60, deadline=None)
def test_bitvec_operators_work_on_patterns_and_shifts_are_logical(kind, a, b, count):
    width = 8 * np.dtype(kind).itemsize
    mask = (1 << width) - 1
    a, b = a & mask, b & mask

    def typed(value):
        return np.array([value], dtype=f"u{width // 8}").view(kind)

    def pattern(value):
        assert value.dtype == kind
        return int(value.view(f"u{width // 8}")[0])

    assert pattern(alu.binary("bitwise_and", typed(a), typed(b))) == a & b
    assert pattern(alu.binary("bitwise_or", typed(a), typed(b))) == a | b
    assert pattern(alu.binary("bitwise_xor", typed(a), typed(b))) == a ^ b
    assert pattern(alu.binary("left_shift", typed(a), typed(count))) == a << count & mask
    assert pattern(alu.binary("right_shift", typed(a), typed(count))) == a >> count
    assert pattern(alu.binary("right_shift", typed(a), count)) == a >> count
    assert pattern(alu.unary("invert", typed(a))) == ~a & mask
    out = typed(0)
    assert alu.binary("bitwise_or", typed(a), typed(b), out=out) is out
    assert pattern(out) == a | b


def test_bitvec_operators_extend_the_narrower_operand_and_refuse_floats():
    got = alu.binary("bitwise_and", np.array([-1], np.int8), np.array([0x1234], np.int16))
    assert (got.dtype, int(got[0])) == (np.int16, 0x1234)
    assert int(alu.binary("bitwise_or", np.array([0], np.int32), 0xFFFF0000).view(np.uint32)[0]) == 0xFFFF0000
    x = np.ones(2, np.float32)
    for refused in (
        lambda: alu.binary("bitwise_and", x, x),
        lambda: alu.binary("bitwise_and", np.ones(2, np.int32), 1.0),
        lambda: alu.unary("invert", x),
        lambda: alu.reduce("bitwise_or", x, 0),
    ):
        with pytest.raises(TypeError, match="bitvec operators take integers"):
            refused()


def test_operators_with_one_operand():
    x = np.float32([0.0, -0.0, 4.0, -2.0, np.inf, -np.inf, np.nan])
    want = {
        "abs": [0, 0, 4, 2, np.inf, np.inf, np.nan],
        "square": [0, 0, 16, 4, np.inf, np.inf, np.nan],
        "relu": [0, 0, 4, 0, np.inf, 0, np.nan],
        "reciprocal": [np.inf, -np.inf, 0.25, -0.5, 0, 0, np.nan],
        "rsqrt": [np.inf, -np.inf, 0.5, np.nan, 0, np.nan, np.nan],
        "logical_not": [1, 1, 0, 0, 0, 0, 0],
        "bypass": x,
    }
    assert sorted(want) == sorted(
        n for n, one in OPERATORS.items() if one.operands == 1 and one.category != "bitvec"
    )
    for op, values in want.items():
        np.testing.assert_array_equal(alu.unary(op, x), np.float32(values), err_msg=op)
        out = np.empty_like(x)
        assert alu.unary(op, x, out=out) is out
        np.testing.assert_array_equal(out, np.float32(values), err_msg=op)
    with pytest.raises(KeyError):
        alu.unary("add", x)
    with pytest.raises(TypeError, match="reciprocal takes float32"):
        alu.unary("reciprocal", np.ones(2, np.int32))


def test_rsqrt_is_within_its_bound():
    x = np.exp2(np.random.default_rng(2).uniform(-126, 127, 20_000)).astype(np.float32)
    want = 1.0 / np.sqrt(x.astype(np.float64))
    assert (np.abs(alu.unary("rsqrt", x) - want) / np.spacing(want.astype(np.float32))).max() <= 1.5


@pytest.mark.parametrize(
    "op",
    [
        "subtract",
        "multiply",
        "maximum",
        "minimum",
        "abs_max",
        "abs_min",
        "logical_and",
        "logical_or",
        "logical_xor",
    ],
)
@given(x=FLOATS)
@settings(max_examples=25, deadline=None)
def test_a_reduction_goes_from_the_first_element_to_the_last(op, x):
    rows = x.reshape(x.shape[0], -1)
    want = []
    for row in rows:
        state = float(row[0] != 0) if op.startswith("logical") else row[0]
        for one in row[1:]:
            state = single(python(op, float(state), float(one)))
        want.append(state)
    axes = tuple(range(1, x.ndim))
    got = alu.reduce(op, x, axes)
    np.testing.assert_array_equal(got, np.float32(want))
    assert alu.reduce(op, x, axes, keepdims=True).shape == (x.shape[0], *(1,) * len(axes))


@given(
    x=hnp.arrays(
        np.float32,
        hnp.array_shapes(min_dims=2, max_dims=3, max_side=9),
        elements=st.floats(-(2.0**100), 2.0**100, width=32),
    )
)
@settings(max_examples=60, deadline=None)
def test_a_sum_is_near_the_exact_one_and_its_bits_do_not_depend_on_strides(x):
    axes = tuple(range(1, x.ndim))
    got = alu.reduce("add", x, axes)
    exact = np.array([math.fsum(row) for row in x.reshape(len(x), -1).tolist()])
    size = np.abs(x.astype(np.float64)).sum(axis=axes)
    assert (np.abs(got - exact) <= size * 2.0**-23 * math.log2(2 + x[0].size)).all()
    spread = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), np.float32)
    spread[..., ::2] = x
    turned = np.asfortranarray(x)
    for same in (spread[..., ::2], turned):
        assert alu.reduce("add", same, axes).tobytes() == got.tobytes()


def test_a_sum_of_a_row_is_numpys_and_an_average_divides_it():
    x = np.random.default_rng(3).standard_normal((4, 1000)).astype(np.float32)
    np.testing.assert_array_equal(alu.reduce("add", x, 1), np.sum(x, axis=1))
    np.testing.assert_array_equal(alu.reduce("average", x, 1), np.sum(x, axis=1) / np.float32(1000))


def test_reductions_over_the_first_axis_of_integers_and_of_nothing():
    x = np.array([[1, 2], [4, 2**31 - 1]], dtype=np.int32)
    np.testing.assert_array_equal(alu.reduce("bitwise_or", x, 0), [5, 2**31 - 1])
    np.testing.assert_array_equal(alu.reduce("bitwise_xor", x, -1), [3, 2**31 - 1 ^ 4])
    got = alu.reduce("add", x, 0)
    np.testing.assert_array_equal(got, [5, -(2**31) + 1])
    assert got.dtype == np.int32
    with pytest.raises(ValueError, match="at least one element"):
        alu.reduce("add", x[:, :0], 1)
    with pytest.raises(KeyError):
        alu.reduce("power", x, 1)


def plain_scan(op0, op1, data0, data1, initial, reverse0, reverse1):
    """The documented pseudo code, an element at a time."""
    result = np.empty_like(data0)
    for p in range(data0.shape[0]):
        state = np.float32(np.broadcast_to(initial, (data0.shape[0], 1))[p, 0])
        for i in range(data0.shape[1]):
            a = (float(state), float(data0[p, i])) if reverse0 else (float(data0[p, i]), float(state))
            inner = single(python(op0, *a))
            b = (float(data1[p, i]), float(inner)) if reverse1 else (float(inner), float(data1[p, i]))
            state = single(python(op1, *b))
            result[p, i] = state
    return result


@given(
    data=st.data(),
    op0=st.sampled_from(["multiply", "add", "subtract", "maximum", "minimum", "greater", "logical_and"]),
    op1=st.sampled_from(["add", "subtract", "multiply", "maximum", "minimum", "less"]),
    reverse0=st.booleans(),
    reverse1=st.booleans(),
    ones=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_a_scan_follows_the_documented_recurrence_bit_for_bit(data, op0, op1, reverse0, reverse1, ones):
    shape = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 7)))
    numbers = hnp.arrays(np.float32, shape, elements=st.floats(width=32))
    data0 = np.ones(shape, np.float32) if ones else data.draw(numbers)
    data1 = data.draw(numbers)
    initial = data.draw(st.sampled_from([0.0, 1.5, np.linspace(-1, 1, shape[0], dtype=np.float32)[:, None]]))
    got = alu.scan(op0, op1, data0, data1, initial, reverse0=reverse0, reverse1=reverse1)
    np.testing.assert_array_equal(got, plain_scan(op0, op1, data0, data1, initial, reverse0, reverse1))
    assert got.flags.c_contiguous


@pytest.mark.parametrize("op", ["add", "subtract", "multiply", "maximum", "minimum"])
@given(x=FLOATS.filter(lambda x: x.ndim == 2))
@settings(max_examples=25, deadline=None)
def test_a_cumulative_operation_has_the_new_element_first(op, x):
    want = np.empty_like(x)
    for p, row in enumerate(x):
        state = np.float32(0.5)
        for i, one in enumerate(row):
            state = single(python(op, float(one), float(state)))
            want[p, i] = state
    np.testing.assert_array_equal(alu.cumulative(op, x, 0.5), want)
    column = np.full((len(x), 1), 0.5, np.float32)
    np.testing.assert_array_equal(alu.cumulative(op, x, column), want)


def test_a_scan_over_nothing_is_empty():
    nothing = np.ones((3, 0), np.float32)
    assert alu.scan("multiply", "add", nothing, nothing, 0.0).shape == (3, 0)
    assert alu.cumulative("add", nothing, 0.0).shape == (3, 0)
    assert alu.cumulative("subtract", nothing, 0.0).shape == (3, 0)
