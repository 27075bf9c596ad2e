"""Elementwise instructions compute what the documentation states, for all types, layouts and memories."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_arithmetic import BINARY, BITS, UNARY, each, one, pattern, stored, two
from single_core import LAYOUTS, NUMBERS, bits, blank, core_of, numbers, tile

from twintrack.neuroncore.emulator.core import Core
from twintrack.nki import isa as nisa
from twintrack.nki.language.creation import ndarray

PLACES = st.sampled_from([("sbuf", layout) for layout in LAYOUTS] + [("psum", "plain"), ("psum", "strided")])
SBUF = st.sampled_from([("sbuf", layout) for layout in LAYOUTS])
TYPES = st.sampled_from(sorted(NUMBERS))
FLOATS = st.sampled_from(["float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2"])
SHAPES = st.sampled_from([(1, 1), (3, 5), (4, 2, 3), (5, 1, 2, 2)])
SEEDS = st.integers(0, 2**16)
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32"]
few = settings(max_examples=60, deadline=None)


def drawn(seed, shape, name):
    """Numbers of a type, with ties, zeros and (in floats) infinities and NaN among them."""
    random = np.random.default_rng(seed)
    kind = NUMBERS[name]
    if name in INTEGERS:
        limits = np.iinfo(kind)
        wide = random.integers(limits.min, limits.max, shape, dtype=np.int64, endpoint=True)
        near = random.integers(max(limits.min, -3), 4, shape)
        return np.where(random.random(shape) < 0.5, wide, near).astype(kind)
    values = random.normal(0, 3, shape)
    special = random.choice([0.0, -0.0, 1.0, 2.0, 0.5, np.inf, -np.inf, np.nan], shape)
    with np.errstate(all="ignore"):
        return np.where(random.random(shape) < 0.3, special, values).astype(np.float32).astype(kind)


def same(tensor, expected):
    """The same numbers; NaN equal each other whatever their bits, zeros their signs only in floats."""
    got = tensor.array()
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got.astype(np.float64), expected.astype(np.float64).reshape(got.shape))


@few
@given(
    op=st.sampled_from(sorted(BINARY)),
    types=st.tuples(TYPES, TYPES, TYPES),
    places=st.tuples(PLACES, PLACES, SBUF),
    shape=SHAPES,
    seed=SEEDS,
)
def test_tensor_tensor_computes_in_float32_and_rounds_once(op, types, places, shape, seed):
    with core_of() as core:
        a = tile(core, drawn(seed, shape, types[1]), types[1], *places[1])
        b = tile(core, drawn(seed + 1, shape, types[2]), types[2], *places[2])
        dst = blank(shape, types[0], *places[0])
        x, y = numbers(a).astype(np.float32), numbers(b).astype(np.float32)
        nisa.tensor_tensor(dst, a, b, op, engine=nisa.engine.vector)
        same(dst, stored(each(lambda p, q: two(op, p, q), x, y), types[0]))


WRAPPING = {
    "add": int.__add__,
    "subtract": int.__sub__,
    "multiply": int.__mul__,
    "maximum": max,
    "minimum": min,
}


@few
@given(
    op=st.sampled_from(sorted(WRAPPING)),
    types=st.tuples(*[st.sampled_from(["int32", "uint32"])] * 3),
    layout=st.sampled_from(LAYOUTS),
    seed=SEEDS,
)
def test_tensor_tensor_of_32_bit_integers_is_exact_and_wraps(op, types, layout, seed):
    with core_of() as core:
        a = drawn(seed, (3, 4), types[1])
        b = drawn(seed + 1, (3, 4), types[2])
        dst = blank((3, 4), types[0], "sbuf", layout)
        given_a, given_b = tile(core, a, types[1]), tile(core, b, types[2], "sbuf", layout)
        done = nisa.tensor_tensor(dst, given_a, given_b, op)
        assert done.handle.engine == "gpsimd"
        for at in np.ndindex(3, 4):
            exact = WRAPPING[op](int(a[at]), int(b[at]))
            assert pattern(dst.array()[at], 32) == pattern(exact, 32)


def test_integers_beyond_24_bits_are_rounded_on_the_vector_engine_only():
    with core_of() as core:
        a = tile(core, np.full((1, 2), 2**24 + 1, np.int32))
        zero = tile(core, np.zeros((1, 2), np.int32))
        exact, rounded = blank((1, 2), "int32"), blank((1, 2), "int32")
        nisa.tensor_tensor(exact, a, zero, "add")
        nisa.tensor_tensor(rounded, a, zero, "add", engine=nisa.engine.vector)
        assert exact.array().tolist() == [[2**24 + 1] * 2]
        assert rounded.array().tolist() == [[2**24] * 2]


def test_integers_in_psum_go_to_the_vector_engine_by_default():
    with core_of() as core:
        a = tile(core, np.full((1, 2), 2**24 + 1, np.int32), region="psum")
        zero = tile(core, np.zeros((1, 2), np.int32))
        dst = blank((1, 2), "int32")
        assert nisa.tensor_tensor(dst, a, zero, "add").handle.engine == "vector"
        assert dst.array().tolist() == [[2**24] * 2]


@pytest.mark.parametrize(
    ("op", "engine"), [("power", "gpsimd"), ("add", "vector"), ("bitwise_and", "vector")]
)
def test_default_engine_of_tensor_tensor(op, engine):
    kind = np.uint16 if op == "bitwise_and" else np.float32
    with core_of() as core:
        a = tile(core, np.ones((2, 2), kind))
        assert nisa.tensor_tensor(blank((2, 2), a.dtype), a, a, op).handle.engine == engine


def test_power_is_that_of_float32():
    with core_of() as core:
        a = tile(core, np.array([[2.0, 9.0, 0.5, 3.0]], np.float32))
        b = tile(core, np.array([[3.0, 0.5, -2.0, 0.0]], np.float32))
        dst = blank((1, 4), "float32")
        nisa.tensor_tensor(dst, a, b, "power")
        assert dst.array().tolist() == [[8.0, 3.0, 4.0, 1.0]]


@few
@given(
    op=st.sampled_from(sorted(BITS)),
    name=st.sampled_from(INTEGERS),
    out=st.sampled_from(INTEGERS),
    layout=st.sampled_from(LAYOUTS),
    seed=SEEDS,
)
def test_tensor_tensor_on_bits_keeps_the_low_bits_of_the_result(op, name, out, layout, seed):
    width, wide = np.dtype(name).itemsize * 8, np.dtype(out).itemsize * 8
    with core_of() as core:
        a = drawn(seed, (3, 4), name)
        b = np.abs(drawn(seed + 1, (3, 4), name).astype(np.int64)) % (width + 2) if "shift" in op else None
        b = drawn(seed + 1, (3, 4), name) if b is None else b.astype(name)
        dst = blank((3, 4), out, "sbuf", layout)
        nisa.tensor_tensor(dst, tile(core, a, name, "sbuf", layout), tile(core, b, name), op)
        for at in np.ndindex(3, 4):
            result = BITS[op](pattern(a[at], width), pattern(b[at], width), width)
            number = int(np.array([pattern(result, width)], f"u{width // 8}").view(name)[0])
            assert pattern(dst.array()[at], wide) == pattern(number, wide)


def operand_of(core, seed, count, vector):
    """A number, or a vector of them, for the instruction and for the reference."""
    values = np.random.default_rng(seed).normal(0, 2, (count, 1)).astype(np.float32)
    return (
        (tile(core, values), values) if vector else (float(values[0, 0]), np.full((count, 1), values[0, 0]))
    )


def column(values, ndim):
    return values.reshape(-1, *(1,) * (ndim - 1))


@few
@given(
    ops=st.tuples(st.sampled_from(sorted(BINARY)), st.sampled_from([None, *sorted(BINARY)])),
    flags=st.tuples(*[st.booleans()] * 4),
    types=st.tuples(TYPES, TYPES),
    places=st.tuples(PLACES, PLACES),
    shape=SHAPES,
    seed=SEEDS,
)
def test_tensor_scalar_applies_two_operators_in_float32(ops, flags, types, places, shape, seed):
    with core_of() as core:
        data = tile(core, drawn(seed, shape, types[1]), types[1], *places[1])
        x = numbers(data).astype(np.float32)
        dst = blank(shape, types[0], *places[0])
        first, y0 = operand_of(core, seed + 1, shape[0], flags[0])
        second, y1 = operand_of(core, seed + 2, shape[0], flags[1])
        if ops[1] is None:
            nisa.tensor_scalar(dst, data, ops[0], first, reverse0=flags[2])
        else:
            nisa.tensor_scalar(dst, data, ops[0], first, flags[2], ops[1], second, flags[3])

        def expected(p, q0, q1):
            inner = two(ops[0], q0, p) if flags[2] else two(ops[0], p, q0)
            if ops[1] is None:
                return inner
            return two(ops[1], q1, inner) if flags[3] else two(ops[1], inner, q1)

        same(dst, stored(each(expected, x, column(y0, x.ndim), column(y1, x.ndim)), types[0]))


@few
@given(
    op=st.sampled_from(sorted(UNARY)),
    then=st.booleans(),
    types=st.tuples(TYPES, TYPES),
    operand=st.sampled_from([None, 0, 0.0]),
    seed=SEEDS,
)
def test_tensor_scalar_takes_unary_operators(op, then, types, operand, seed):
    with core_of() as core:
        data = tile(core, drawn(seed, (3, 4), types[1]))
        x = numbers(data).astype(np.float32)
        dst = blank((3, 4), types[0])
        if then:
            nisa.tensor_scalar(dst, data, "multiply", 0.5, op1=op, operand1=operand)
            expected = each(lambda p: one(op, two("multiply", p, 0.5)), x)
        else:
            nisa.tensor_scalar(dst, data, op, operand)
            expected = each(lambda p: one(op, p), x)
        same(dst, stored(expected, types[0]))


def test_rsqrt_runs_on_gpsimd_by_default():
    with core_of() as core:
        data = tile(core, np.array([[0.25, 4.0, 3.0]], np.float32))
        dst = blank((1, 3), "float32")
        done = nisa.tensor_scalar(dst, data, "add", 1.0, op1="rsqrt", operand1=0.0)
        assert done.handle.engine == "gpsimd"
        np.testing.assert_allclose(dst.array(), 1 / np.sqrt([[1.25, 5.0, 4.0]]), rtol=2e-7)


@few
@given(
    ops=st.tuples(st.sampled_from(sorted(BITS)), st.sampled_from([None, "invert", *sorted(BITS)])),
    flags=st.tuples(*[st.booleans()] * 3),
    name=st.sampled_from(INTEGERS),
    seed=SEEDS,
)
def test_tensor_scalar_on_bits(ops, flags, name, seed):
    width = np.dtype(name).itemsize * 8
    with core_of() as core:
        a = drawn(seed, (3, 4), name)
        amounts = np.random.default_rng(seed).integers(0, width + 2, (3, 1)).astype(name)
        first = tile(core, amounts) if flags[0] else int(amounts[0, 0])
        y0 = amounts if flags[0] else np.full((3, 1), amounts[0, 0])
        dst = blank((3, 4), name)
        second = None if ops[1] in (None, "invert") else 3
        nisa.tensor_scalar(dst, tile(core, a), ops[0], first, flags[1], ops[1], second, flags[2])
        for at in np.ndindex(3, 4):
            x, y = pattern(a[at], width), pattern(y0[at[0], 0], width)
            result = pattern(BITS[ops[0]](*((y, x) if flags[1] else (x, y)), width), width)
            if ops[1] == "invert":
                result = pattern(~result, width)
            elif ops[1] is not None:
                result = pattern(BITS[ops[1]](*((3, result) if flags[2] else (result, 3)), width), width)
            assert pattern(dst.array()[at], width) == result


def test_a_negative_number_is_cut_to_the_width_of_bits():
    with core_of() as core:
        data = tile(core, np.array([[0x1234, 0xFFFF]], np.uint16))
        dst = blank((1, 2), "uint16")
        nisa.tensor_scalar(dst, data, "bitwise_and", -16)
        assert dst.array().tolist() == [[0x1230, 0xFFF0]]


@few
@given(
    ops=st.tuples(st.sampled_from(sorted(BINARY)), st.sampled_from(sorted(BINARY))),
    flags=st.tuples(*[st.booleans()] * 3),
    types=st.tuples(TYPES, TYPES, TYPES),
    places=st.tuples(PLACES, PLACES, SBUF),
    shape=SHAPES,
    seed=SEEDS,
)
def test_scalar_tensor_tensor_is_tensor_scalar_then_tensor_tensor(ops, flags, types, places, shape, seed):
    with core_of() as core:
        data = tile(core, drawn(seed, shape, types[1]), types[1], *places[1])
        other = tile(core, drawn(seed + 1, shape, types[2]), types[2], *places[2])
        x, y = numbers(data).astype(np.float32), numbers(other).astype(np.float32)
        dst = blank(shape, types[0], *places[0])
        first, y0 = operand_of(core, seed + 2, shape[0], flags[0])
        nisa.scalar_tensor_tensor(dst, data, ops[0], first, ops[1], other, flags[1], flags[2])

        def expected(p, q0, q1):
            inner = two(ops[0], q0, p) if flags[1] else two(ops[0], p, q0)
            return two(ops[1], q1, inner) if flags[2] else two(ops[1], inner, q1)

        same(dst, stored(each(expected, x, column(y0, x.ndim), y), types[0]))


def test_a_vector_operand_of_scalar_tensor_tensor_may_be_of_any_type():
    with core_of() as core:
        data = tile(core, np.full((2, 3), 2.0, np.float32))
        factor = tile(core, np.array([[3], [5]], np.int8))
        dst = blank((2, 3), "float32")
        nisa.scalar_tensor_tensor(dst, data, "multiply", factor, "add", data)
        assert dst.array().tolist() == [[8.0] * 3, [12.0] * 3]


OVERLAPS = {
    "tensor_tensor": lambda x: nisa.tensor_tensor(x[:, 1:5], x[:, 0:4], x[:, 2:6], "add"),
    "tensor_scalar": lambda x: nisa.tensor_scalar(
        x[:, 0:4], x[:, 1:5], "multiply", x[:, 2:3], op1="add", operand1=x[:, 3:4]
    ),
    "scalar_tensor_tensor": lambda x: nisa.scalar_tensor_tensor(
        x[:, 1:5], x[:, 0:4], "multiply", x[:, 2:3], "add", x[:, 2:6]
    ),
}
EXPECTED = {
    "tensor_tensor": lambda a: (slice(1, 5), a[:, 0:4] + a[:, 2:6]),
    "tensor_scalar": lambda a: (slice(0, 4), a[:, 1:5] * a[:, 2:3] + a[:, 3:4]),
    "scalar_tensor_tensor": lambda a: (slice(1, 5), a[:, 0:4] * a[:, 2:3] + a[:, 2:6]),
}


@pytest.mark.parametrize("name", sorted(OVERLAPS))
def test_operands_that_overlap_the_destination_are_read_first(name):
    values = np.arange(12, dtype=np.float32).reshape(2, 6) + 1
    with core_of() as core:
        x = tile(core, values)
        OVERLAPS[name](x)
        expected = values.copy()
        columns, result = EXPECTED[name](values)
        expected[:, columns] = result
        assert x.array().tolist() == expected.tolist()


def test_views_with_steps_permuted_and_repeated_columns_are_read_as_they_are():
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    with core_of() as core:
        x = tile(core, values)
        dst = blank((2, 4, 3), "float32")
        row = tile(core, np.array([[10.0], [20.0]], np.float32))
        repeated = row.ap([[1, 2], [0, 12]])
        nisa.tensor_tensor(dst, x.permute((0, 2, 1)), repeated, "add")
        expected = values.transpose(0, 2, 1) + np.array([10.0, 20.0]).reshape(2, 1, 1)
        assert dst.array().tolist() == expected.tolist()


def test_equally_many_elements_in_other_dimensions_are_paired_in_row_major_order():
    values = np.arange(24, dtype=np.float32).reshape(2, 12)
    with core_of() as core:
        a, b = tile(core, values.reshape(2, 3, 4)), tile(core, values)
        dst = blank((2, 2, 6), "float32", "sbuf", "strided")
        nisa.tensor_tensor(dst, a, b, "add")
        assert dst.array().reshape(2, 12).tolist() == (values * 2).tolist()


def test_what_was_never_written_is_not_read():
    from single_core import message

    with core_of() as core:
        good, bad = tile(core, np.ones((2, 2), np.float32)), blank((2, 2), "float32")
        dst = blank((2, 2), "float32")
        assert "data2 written before it is read" in message(lambda: nisa.tensor_tensor(dst, good, bad, "add"))
        vector = blank((2, 1), "float32")
        assert "operand0 written" in message(lambda: nisa.tensor_scalar(dst, good, "add", vector))


def test_unrounded_narrow_floats_are_kept_where_precise_floating_point_is_off():
    with core_of(precise=False) as core:
        data = tile(core, np.full((1, 2), 1.0, np.float32), "bfloat16")
        dst = ndarray((1, 2), "bfloat16", "sbuf")
        nisa.tensor_scalar(dst, data, "add", 2.0**-20)
        assert dst.array().dtype == np.float32
        assert dst.array().tolist() == [[1.0 + 2.0**-20] * 2]


def test_the_instruction_kept_holds_what_decides_its_values():
    kept = []
    core: Core
    with core_of(sink=kept.append) as core:
        data = tile(core, np.ones((2, 2), np.float32))
        nisa.tensor_scalar(data, data, "subtract", 2.0, True, "multiply", 3.0, name="scaled")
    assert kept[-1].attributes == {
        "op0": "subtract",
        "operand0": 2.0,
        "reverse0": True,
        "op1": "multiply",
        "operand1": 3.0,
        "reverse1": False,
    }
    assert kept[-1].name == "scaled"
    assert bits(data.array()).shape == (2, 2)


@pytest.mark.parametrize("types", [("int32", "uint32"), ("uint32", "int32")])
def test_power_of_integers_of_two_types_is_exact(types):
    with core_of() as core:
        a = tile(core, np.array([[3, 2, 7, 10]], types[0]))
        b = tile(core, np.array([[20, 31, 0, 9]], types[1]))
        dst = blank((1, 4), "uint32")
        nisa.tensor_tensor(dst, a, b, "power")
        assert dst.array().tolist() == [[3**20 % 2**32, 2**31, 1, 10**9]]


def test_indirect_operands_of_v4_are_gathered_and_scattered():
    values = np.arange(32, dtype=np.float32).reshape(4, 8)
    order = [7, 2, 5, 0, 1, 3, 6, 4]  # offset i stands at [i % 4, i // 4]: the four partitions share them
    with core_of("trn3") as core:
        index = tile(core, np.array(order, np.uint32).reshape(2, 4).T.copy())
        data, gathered, scattered = tile(core, values), blank((4, 8), "float32"), tile(core, values)
        nisa.tensor_scalar(gathered, data.indirect(index), "multiply", 2.0)
        nisa.tensor_scalar(scattered.indirect(index), data, "multiply", 2.0)
        assert gathered.array().tolist() == (2 * values[:, order]).tolist()
        expected = np.empty_like(values)
        expected[:, order] = 2 * values
        assert scattered.array().tolist() == expected.tolist()
