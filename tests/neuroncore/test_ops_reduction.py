"""Reductions, scans and batch-norm statistics compute what the documentation states, against plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_arithmetic import BINARY, each, f32, fold, one, pattern, stored, two
from single_core import LAYOUTS, NUMBERS, bits, blank, core_of, message, numbers, tile

from twintrack.nki import isa as nisa

CMD = nisa.reduce_cmd
PLACES = st.sampled_from([("sbuf", layout) for layout in LAYOUTS] + [("psum", "plain"), ("psum", "strided")])
SBUF = st.sampled_from([("sbuf", layout) for layout in LAYOUTS])
TYPES = st.sampled_from(sorted(NUMBERS))
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32"]
SHAPES = st.sampled_from([(1, 1), (3, 5), (4, 2, 3), (2, 3, 1, 4)])
SEEDS = st.integers(0, 2**16)
few = settings(max_examples=60, deadline=None)
IN_ORDER = ["multiply", "maximum", "minimum", "subtract", "logical_and", "logical_or", "logical_xor"]


def small(seed, shape, name="float32"):
    """Numbers of a type whose sums and products stay exact enough to be compared bit for bit in order."""
    random = np.random.default_rng(seed)
    values = random.integers(0 if name.startswith("u") else -3, 4, shape)
    if name in INTEGERS:
        return values.astype(NUMBERS[name])
    return (values + random.choice([0, 0.5], shape)).astype(np.float32).astype(NUMBERS[name])


def real(seed, shape, name="float32"):
    """Numbers whose sums are rounded."""
    return np.random.default_rng(seed).normal(0, 2, shape).astype(np.float32).astype(NUMBERS[name])


def same(tensor, expected):
    got = tensor.array().astype(np.float64)
    np.testing.assert_array_equal(got, np.asarray(expected).astype(np.float64).reshape(got.shape))


# tensor_reduce


def rows_of(values, axes):
    """One row of numbers for each reduction over the last axes."""
    return values.reshape(-1, math.prod(values.shape[-axes:]))


@few
@given(
    op=st.sampled_from(IN_ORDER),
    axes=st.integers(1, 3),
    negate=st.booleans(),
    keepdims=st.booleans(),
    types=st.tuples(TYPES, TYPES),
    places=st.tuples(PLACES, PLACES),
    shape=SHAPES,
    seed=SEEDS,
)
def test_tensor_reduce_goes_from_first_to_last(op, axes, negate, keepdims, types, places, shape, seed):
    axes = min(axes, len(shape) - 1)
    with core_of() as core:
        data = tile(core, small(seed, shape, types[1]), types[1], *places[1])
        left = shape[: len(shape) - axes]
        kept = (*left, *(1,) * axes) if keepdims or len(left) == 1 else left
        dst = blank(kept, types[0], *places[0])
        nisa.tensor_reduce(dst, op, data, tuple(range(len(left), len(shape))), negate, keepdims)
        found = []
        for row in rows_of(numbers(data), axes):
            result = fold(op, [float(x) for x in row])
            # logic makes a truth of a single number, too
            result = float(bool(result)) if op.startswith("logical") else result
            found.append(-result if negate else result)
        same(dst, stored(found, types[0]))


@few
@given(types=st.tuples(TYPES, st.sampled_from(["float32", "bfloat16", "int16"])), place=PLACES, seed=SEEDS)
def test_tensor_reduce_adds_within_the_error_of_any_order(types, place, seed):
    with core_of() as core:
        values = small(seed, (3, 40), types[1]) if types[1] == "int16" else real(seed, (3, 40), types[1])
        data = tile(core, values, types[1], *place)
        dst = blank((3, 1), "float32")
        nisa.tensor_reduce(dst, "add", data, axis=1)
        for row, total in zip(numbers(data), dst.array()[:, 0], strict=True):
            assert abs(float(total) - math.fsum(row)) <= 40 * 2.0**-24 * math.fsum(np.abs(row))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sums_are_the_same_bits_whatever_the_layout(layout):
    values = real(3, (4, 3, 50))
    with core_of() as core:
        dst = blank((4, 3), "float32")
        nisa.tensor_reduce(dst, "add", tile(core, values, None, "sbuf", layout), axis=[2])
        assert bits(dst.array()).tolist() == bits(np.sum(np.ascontiguousarray(values), axis=2)).tolist()


@pytest.mark.parametrize("axis", [1, -1, [1], (-1,), np.int64(1)])
def test_an_axis_is_an_integer_or_a_list_and_may_count_from_the_end(axis):
    with core_of() as core:
        dst = blank((2, 1), "float32")
        data = tile(core, np.array([[1.0, 5.0], [7.0, 2.0]], np.float32))
        nisa.tensor_reduce(dst, "maximum", data, axis)
        assert dst.array().tolist() == [[5.0], [7.0]]


def test_axes_of_a_permuted_view_are_those_of_the_view():
    values = small(5, (2, 3, 4))
    with core_of() as core:
        dst = blank((2, 4), "float32")
        nisa.tensor_reduce(dst, "maximum", tile(core, values).permute((0, 2, 1)), axis=2)
        assert dst.array().tolist() == values.max(1).tolist()


@few
@given(
    op=st.sampled_from(["bitwise_and", "bitwise_or", "bitwise_xor"]),
    types=st.tuples(*[st.sampled_from(INTEGERS)] * 2),
    layout=st.sampled_from(LAYOUTS),
    seed=SEEDS,
)
def test_tensor_reduce_on_bits(op, types, layout, seed):
    python = {"bitwise_and": int.__and__, "bitwise_or": int.__or__, "bitwise_xor": int.__xor__}[op]
    limits = np.iinfo(types[1])
    values = np.random.default_rng(seed).integers(limits.min, limits.max, (3, 4), np.int64, endpoint=True)
    with core_of() as core:
        dst = blank((3, 1), types[0])
        nisa.tensor_reduce(dst, op, tile(core, values.astype(types[1]), None, "sbuf", layout), axis=1)
        width = np.dtype(types[0]).itemsize * 8
        for row, found in zip(values, dst.array()[:, 0], strict=True):
            result = int(row[0])
            for x in row[1:]:
                result = python(result, int(x))
            assert pattern(found, width) == pattern(result, width)


# tensor_partition_reduce


@few
@given(
    op=st.sampled_from(["add", "average", "maximum"]),
    types=st.tuples(TYPES, TYPES),
    places=st.tuples(SBUF, SBUF),
    shape=SHAPES,
    seed=SEEDS,
)
def test_tensor_partition_reduce_combines_partitions(op, types, places, shape, seed):
    with core_of() as core:
        data = tile(core, small(seed, shape, types[1]), types[1], *places[1])
        dst = blank((1, *shape[1:]), types[0], *places[0])
        nisa.tensor_partition_reduce(dst, op, data)
        columns = numbers(data).reshape(shape[0], -1).T
        results = [max(c) if op == "maximum" else math.fsum(c) for c in columns]
        if op == "average":
            results = [f32(total / shape[0]) for total in results]
        if types[0] in ("int32", "uint32") and types[1] in ("int32", "uint32") and op != "average":
            assert [pattern(x, 32) for x in dst.array().reshape(-1)] == [pattern(x, 32) for x in results]
        else:
            same(dst, stored(results, types[0]))


def test_partitions_of_32_bit_integers_are_added_exactly():
    with core_of() as core:
        data, dst = tile(core, np.array([[2**24], [1]], np.int32)), blank((1, 1), "int32")
        nisa.tensor_partition_reduce(dst, "add", data)
        assert dst.array().tolist() == [[2**24 + 1]]


@pytest.mark.parametrize(("op", "expected"), [("bitwise_or", 0b1111), ("bitwise_and", 0b0100)])
def test_tensor_partition_reduce_on_bits(op, expected):
    with core_of() as core:
        data, dst = tile(core, np.array([[0b1100], [0b0111]], np.uint8)), blank((1, 1), "uint8")
        nisa.tensor_partition_reduce(dst, op, data)
        assert dst.array().tolist() == [[expected]]


# tensor_scalar_reduce

IDENTITY = {"add": 0.0, "multiply": 1.0, "maximum": -math.inf, "minimum": math.inf}


def operand(core, seed, count, vector):
    values = small(seed, (count, 1))
    return (
        (tile(core, values), values) if vector else (float(values[0, 0]), np.full((count, 1), values[0, 0]))
    )


def column(values, ndim):
    return values.reshape(-1, *(1,) * (ndim - 1))


@few
@given(
    ops=st.tuples(st.sampled_from(sorted(BINARY)), st.sampled_from(sorted(IDENTITY))),
    vector=st.booleans(),
    negate=st.booleans(),
    load=st.sampled_from([None, "number", "vector"]),
    types=st.tuples(TYPES, TYPES),
    places=st.tuples(PLACES, PLACES),
    shape=st.sampled_from([(1, 1), (3, 5), (4, 2, 3)]),
    seed=SEEDS,
)
def test_tensor_scalar_reduce(ops, vector, negate, load, types, places, shape, seed):
    with core_of() as core:
        data = tile(core, small(seed, shape, types[1]), types[1], *places[1])
        dst, total = blank(shape, types[0], *places[0]), blank((shape[0], 1), "float32")
        operand0, y = operand(core, seed + 1, shape[0], vector)
        options = {}
        starts = np.full((shape[0], 1), IDENTITY[ops[1]])
        if load is not None:
            start, starts = operand(core, seed + 2, shape[0], load == "vector")
            options = {"reduce_cmd": CMD.load_reduce, "reduce_init": start}
        nisa.tensor_scalar_reduce(
            dst, data, ops[0], operand0, ops[1], total, reduce_res_negate=negate, **options
        )
        x = numbers(data)
        result = each(lambda p, q: two(ops[0], p, q), x, column(y, x.ndim))
        same(dst, stored(result, types[0]))
        for i in range(shape[0]):
            expected = fold(ops[1], [float(starts[i, 0]), *map(float, result[i].reshape(-1))])
            assert float(total.array()[i, 0]) == (-expected if negate else expected)


def test_tensor_scalar_reduce_takes_unary_operators():
    with core_of() as core:
        data = tile(core, np.array([[-3.0, 2.0]], np.float32))
        dst, total = blank((1, 2), "float32"), blank((1, 1), "float32")
        nisa.tensor_scalar_reduce(dst, data, "abs", None, "add", total)
        assert dst.array().tolist() == [[one("abs", -3.0), one("abs", 2.0)]]
        assert total.array().tolist() == [[5.0]]


def test_registers_go_on_and_are_not_negated():
    with core_of() as core:
        data = tile(core, np.array([[1.0, 2.0], [3.0, 4.0]], np.float32))
        dst, total = blank((2, 2), "float32"), blank((2, 1), "float32")
        nisa.tensor_scalar_reduce(dst, data, "add", 0.0, "add", total, reduce_res_negate=True)
        assert total.array().tolist() == [[-3.0], [-7.0]]
        nisa.tensor_scalar_reduce(dst, data, "multiply", 10.0, "add", total, reduce_cmd=CMD.reduce)
        assert total.array().tolist() == [[33.0], [77.0]]


def test_reductions_take_float32_results_before_they_are_rounded():
    with core_of() as core:
        data = tile(core, np.full((1, 2), 0.25, np.float32))
        dst, total = blank((1, 2), "int8"), blank((1, 1), "float32")
        nisa.tensor_scalar_reduce(dst, data, "add", 0.0, "add", total)
        assert dst.array().tolist() == [[0, 0]]
        assert total.array().tolist() == [[0.5]]


@pytest.mark.parametrize("name", ["tensor_scalar_reduce", "tensor_scalar_cumulative"])
def test_registers_that_nothing_has_set_are_not_used(name):
    with core_of() as core:
        data = tile(core, np.ones((2, 2), np.float32))
        issue = {
            "tensor_scalar_reduce": lambda: nisa.tensor_scalar_reduce(
                data, data, "add", 1.0, "add", reduce_cmd=CMD.reduce
            ),
            "tensor_scalar_cumulative": lambda: nisa.tensor_scalar_cumulative(
                data, data, "add", "add", 1.0, reduce_cmd=CMD.reduce
            ),
        }[name]
        assert "accumulator registers that an earlier instruction has set" in message(issue)


# scans

CUMULATIVE = [
    "bfloat16",
    "float16",
    "float32",
    "float8_e4m3",
    "float8_e5m2",
    "uint8",
    "int8",
    "uint16",
    "int16",
]


@few
@given(
    ops=st.tuples(
        st.sampled_from(sorted(BINARY)),
        st.sampled_from(["add", "subtract", "multiply", "maximum", "minimum"]),
    ),
    vectors=st.tuples(*[st.booleans()] * 2),
    load=st.booleans(),
    types=st.tuples(*[st.sampled_from(CUMULATIVE)] * 2),
    places=st.tuples(PLACES, PLACES),
    shape=SHAPES,
    seed=SEEDS,
)
def test_tensor_scalar_cumulative_follows_the_documented_loop(ops, vectors, load, types, places, shape, seed):
    with core_of() as core:
        values = real(seed, shape, types[1]) if types[1] in CUMULATIVE[:5] else small(seed, shape, types[1])
        src = tile(core, values, types[1], *places[1])
        dst = blank(shape, types[0], *places[0])
        imm0, y = operand(core, seed + 1, shape[0], vectors[0])
        imm1, z = operand(core, seed + 2, shape[0], vectors[1])
        if load:
            nisa.tensor_scalar_cumulative(dst, src, *ops, imm0, imm1, CMD.load_reduce)
        else:
            nisa.tensor_scalar_cumulative(dst, src, *ops, imm0)
        expected = []
        for i, row in enumerate(numbers(src).reshape(shape[0], -1)):
            reg = float(z[i, 0]) if load else IDENTITY.get(ops[1], 0.0)
            for x in row:
                reg = two(ops[1], two(ops[0], float(x), float(y[i, 0])), reg)
                expected.append(reg)
        same(dst, stored(expected, types[0]))


def test_tensor_scalar_cumulative_goes_on_where_the_last_one_ended():
    values = np.arange(8, dtype=np.float32).reshape(1, 8)
    with core_of() as core:
        src, dst = tile(core, values), blank((1, 8), "float32")
        nisa.tensor_scalar_cumulative(dst[:, :5], src[:, :5], "multiply", "add", 2.0)
        nisa.tensor_scalar_cumulative(dst[:, 5:], src[:, 5:], "multiply", "add", 2.0, reduce_cmd=CMD.reduce)
        assert dst.array().tolist() == [np.cumsum(2 * values).tolist()]


@few
@given(
    ops=st.tuples(*[st.sampled_from(sorted(BINARY))] * 2),
    flags=st.tuples(*[st.booleans()] * 3),
    types=st.tuples(TYPES, TYPES, TYPES),
    start=st.sampled_from(["float32", "bfloat16", "int8"]),
    places=st.tuples(PLACES, PLACES, SBUF),
    shape=SHAPES,
    seed=SEEDS,
)
def test_tensor_tensor_scan_follows_the_documented_loop(ops, flags, types, start, places, shape, seed):
    with core_of() as core:
        made = [
            real(seed + i, shape, name) if name not in INTEGERS else small(seed + i, shape, name)
            for i, name in enumerate(types)
        ]
        data0 = tile(core, made[1], types[1], *places[1])
        data1 = tile(core, made[2], types[2], *places[2])
        dst = blank(shape, types[0], *places[0])
        starts = small(seed + 5, (shape[0], 1), start)
        initial = tile(core, starts) if flags[0] else float(starts[0, 0])
        nisa.tensor_tensor_scan(dst, data0, data1, initial, *ops, flags[1], flags[2])
        expected = []
        rows = zip(numbers(data0).reshape(shape[0], -1), numbers(data1).reshape(shape[0], -1), strict=True)
        for i, (row0, row1) in enumerate(rows):
            state = float(starts[i if flags[0] else 0, 0])
            for x, y in zip(map(float, row0), map(float, row1), strict=True):
                inner = two(ops[0], state, x) if flags[1] else two(ops[0], x, state)
                state = two(ops[1], y, inner) if flags[2] else two(ops[1], inner, y)
                expected.append(state)
        same(dst, stored(expected, types[0]))


def test_a_scan_may_write_over_its_own_input():
    values = real(2, (3, 6))
    with core_of() as core:
        x, y, fresh = tile(core, values), tile(core, real(3, (3, 6))), blank((3, 6), "float32")
        nisa.tensor_tensor_scan(fresh, x, y, 0.5, "multiply", "add")
        nisa.tensor_tensor_scan(x, x, y, 0.5, "multiply", "add")
        assert bits(x.array()).tolist() == bits(fresh.array()).tolist()


# batch-norm statistics


@few
@given(
    count=st.integers(1, 60),
    name=st.sampled_from(["float32", "bfloat16", "int8"]),
    place=PLACES,
    seed=SEEDS,
)
def test_bn_stats_are_those_of_even_and_odd_elements(count, name, place, seed):
    values = small(seed, (2, count), name) if name == "int8" else real(seed, (2, count), name)
    with core_of() as core:
        data, dst = tile(core, values, name, *place), blank((2, 6), "float32")
        nisa.bn_stats(dst, data)
        for row, found in zip(numbers(data), dst.array(), strict=True):
            for at, part in ((0, row[0::2]), (3, row[1::2])):
                if not len(part):
                    assert found[at : at + 3].tolist() == [0, 0, 0]
                    continue
                mean = math.fsum(part) / len(part)
                assert found[at] == len(part)
                assert found[at + 1] == pytest.approx(mean, rel=1e-5, abs=1e-5)
                assert found[at + 2] == pytest.approx(math.fsum((part - mean) ** 2), rel=1e-4, abs=1e-4)


@few
@given(sizes=st.lists(st.integers(1, 60), min_size=1, max_size=4), seed=SEEDS)
def test_bn_aggr_joins_statistics_of_parts(sizes, seed):
    values = real(seed, (3, sum(sizes))) + np.float32(seed % 5)
    with core_of() as core:
        data, stats = tile(core, values), blank((3, 6 * len(sizes)), "float32")
        result = blank((3, 2), "float32")
        start = 0
        for i, size in enumerate(sizes):
            nisa.bn_stats(stats[:, 6 * i : 6 * i + 6], data[:, start : start + size])
            start += size
        nisa.bn_aggr(result, stats)
        wide = values.astype(np.float64)
        np.testing.assert_allclose(result.array()[:, 0], wide.mean(1), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(result.array()[:, 1], wide.var(1), rtol=1e-4, atol=1e-5)


def test_statistics_are_rounded_to_the_destination():
    with core_of() as core:
        data = tile(core, real(4, (2, 32)))
        wide, narrow = blank((2, 6), "float32"), blank((2, 6), "bfloat16")
        nisa.bn_stats(wide, data)
        nisa.bn_stats(narrow, data)
        same(narrow, stored(wide.array(), "bfloat16"))


def test_statistics_of_nothing_are_not_a_number():
    with core_of() as core:
        result = blank((1, 2), "float32")
        nisa.bn_aggr(result, tile(core, np.zeros((1, 3), np.float32)))
        assert np.isnan(result.array()).all()
