"""What iota, affine_select, range_select, select_reduce and sequence_bounds compute, against plain Python loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from single_core import LAYOUTS, NUMBERS, bits, blank, core_of, is_written, numbers, only_inside, tile

from twintrack.errors import KernelError
from twintrack.nki import isa as nisa

LOWEST = np.finfo(np.float32).min
COMPARE = {
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
}
layouts = st.sampled_from(LAYOUTS)
patterns = st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 4)), min_size=1, max_size=4)


def affine(partitions, pattern, offset, multiplier):
    """The documented loops, on integers of 32 bits."""
    pattern = [(0, 1)] * (4 - len(pattern)) + list(pattern)
    rows = []
    for channel in range(partitions):
        row = []
        for w in range(pattern[0][1]):
            for z in range(pattern[1][1]):
                for y in range(pattern[2][1]):
                    for x in range(pattern[3][1]):
                        steps = (w * pattern[0][0], z * pattern[1][0], y * pattern[2][0], x * pattern[3][0])
                        value = offset + channel * multiplier + sum(steps)
                        row.append((value + 2**31) % 2**32 - 2**31)
        rows.append(row)
    return rows


@settings(max_examples=60, deadline=None)
@given(
    patterns,
    st.integers(1, 5),
    st.integers(-300, 300),
    st.integers(-9, 9),
    st.sampled_from(["int32", "float32", "int8", "uint16", "bfloat16"]),
    layouts,
)
def test_iota_writes_the_affine_value_of_every_element(
    pattern, partitions, offset, multiplier, dtype, layout
):
    want = np.array(affine(partitions, pattern, offset, multiplier))
    with core_of():
        dst = blank(want.shape, dtype, layout=layout)
        nisa.iota(dst, [list(pair) for pair in pattern], offset, multiplier)
        assert is_written(dst)
        got = numbers(dst)
    if dtype in ("int8", "uint16"):
        want = np.clip(want, np.iinfo(dtype).min, np.iinfo(dtype).max)
    assert np.array_equal(got, want.astype(np.float32).astype(NUMBERS[dtype]).astype(np.float64))


def test_iota_wraps_as_32_bit_integers_do_and_fills_any_shape_of_the_same_size():
    with core_of():
        dst = blank((2, 3, 2), "int32")
        nisa.iota(dst, [[2**30, 6]], 2**31 - 1, -1)
        got = dst.array().reshape(2, 6).tolist()
    assert got == affine(2, [(2**30, 6)], 2**31 - 1, -1)
    assert got[0][1] < 0


@settings(max_examples=60, deadline=None)
@given(
    patterns,
    st.integers(1, 5),
    st.integers(-9, 9),
    st.sampled_from(sorted(COMPARE)),
    st.sampled_from(
        [("float32", "float32"), ("float32", "bfloat16"), ("int32", "float32"), ("int8", "int8")]
    ),
    layouts,
    layouts,
)
def test_affine_select_takes_the_tile_where_the_comparison_holds(
    pattern, partitions, offset, op, dtypes, one, two
):
    values = np.array(affine(partitions, pattern, offset, 2))
    data = np.random.default_rng(values.size).integers(-100, 100, values.shape)
    with core_of() as core:
        source = tile(core, data, dtypes[0], layout=one)
        dst = blank(values.shape, dtypes[1], layout=two)
        nisa.affine_select(dst, pattern, 2, source, -7.0, op, offset)
        got = numbers(dst)
    for at in np.ndindex(values.shape):
        assert got[at] == (data[at] if COMPARE[op](values[at], 0) else -7.0)


def test_affine_select_keeps_bits_of_the_same_type_and_casts_others_once():
    wide = np.array([[2**24 + 1, -(2**31) + 1]])
    with core_of() as core:
        same, other = blank((1, 2), "int32"), blank((1, 2), "float32")
        source = tile(core, wide, "int32")
        nisa.affine_select(same, [[1, 2]], 0, source, 0.0, "greater_equal")
        nisa.affine_select(other, [[1, 2]], 0, source, 0.0, "greater_equal")
        assert same.array().tolist() == wide.tolist()
        assert other.array().tolist() == wide.astype(np.float32).tolist()
        half = blank((1, 2), "bfloat16")
        nisa.affine_select(half, [[1, 2]], 0, source, 1.0000001, "less")
        assert numbers(half).tolist() == [[1.0, 1.0]]


def test_affine_select_builds_a_causal_mask():
    scores = np.arange(16.0).reshape(4, 4)
    with core_of() as core:
        dst = blank((4, 4), "float32")
        nisa.affine_select(dst, [[-1, 4]], 1, tile(core, scores, "float32"), -np.inf, cmp_op="greater_equal")
        assert np.array_equal(numbers(dst), np.where(np.tri(4, dtype=bool), scores, -np.inf))


@settings(max_examples=50, deadline=None)
@given(
    st.integers(1, 5),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.integers(-5, 5),
    st.sampled_from(sorted(set(COMPARE) - {"not_equal"})),
    st.sampled_from(sorted(set(COMPARE) - {"not_equal"})),
    st.sampled_from([("float32", "float32"), ("bfloat16", "float32"), ("float32", "float16")]),
    layouts,
    layouts,
)
def test_range_select_compares_the_flat_index_with_both_bounds(
    partitions, free, start, op0, op1, dtypes, one, two
):
    rng = np.random.default_rng(partitions)
    data = rng.integers(-50, 50, (partitions, *free))
    low, high = rng.integers(-4, 9, (2, partitions, 1)).astype(np.float32)
    with core_of() as core:
        dst = blank(data.shape, dtypes[1], layout=two)
        result = blank((partitions, 1), "float32")
        nisa.range_select(
            dst,
            tile(core, data, dtypes[0], layout=one),
            op0,
            op1,
            tile(core, low),
            tile(core, high),
            reduce_res=result,
            range_start=start,
        )
        got, most = numbers(dst).reshape(partitions, -1), numbers(result)
    for row in range(partitions):
        largest = -math.inf
        for at, value in enumerate(data[row].reshape(-1).tolist()):
            index = start + at
            chosen = COMPARE[op0](index, low[row, 0]) and COMPARE[op1](index, high[row, 0])
            kept = float(value) if chosen else float(LOWEST)
            assert got[row, at] == (-math.inf if not chosen and dtypes[1] == "float16" else kept)
            largest = max(largest, kept)
        assert most[row, 0] == largest


def test_the_lowest_number_becomes_minus_infinity_in_a_narrow_result_but_not_in_the_reduction():
    with core_of() as core:
        source = tile(core, np.ones((2, 4), np.float32))
        bound = tile(core, np.zeros((2, 1), np.float32))
        for name in ("float16", "bfloat16", "float8_e4m3", "float8_e5m2"):
            dst, result = blank((2, 4), name), blank((2, 1), "float32")
            nisa.range_select(dst, source, "less", "less", bound, bound, reduce_res=result)
            assert (numbers(dst) == -np.inf).all()
            assert (result.array() == LOWEST).all()


def test_reductions_chain_over_range_select_and_select_reduce_in_the_shared_registers():
    with core_of() as core:
        a = tile(core, np.array([[1.0, 9.0], [3.0, 2.0]]), "float32")
        b = tile(core, np.array([[5.0, 4.0], [7.0, 8.0]]), "float32")
        always = tile(core, np.ones((2, 2)), "uint8")
        zero = tile(core, np.zeros((2, 1)), "float32")
        dst, result = blank((2, 2), "float32"), blank((2, 1), "float32")
        nisa.range_select(dst, a, "greater_equal", "greater_equal", zero, zero)
        nisa.select_reduce(dst, always, b, 0.0, reduce_cmd=nisa.reduce_cmd.reduce, reduce_res=result)
        assert result.array().tolist() == [[9.0], [8.0]]
        nisa.select_reduce(dst, always, b, 0.0, reduce_cmd=nisa.reduce_cmd.reset_reduce, reduce_res=result)
        assert result.array().tolist() == [[5.0], [8.0]]
        nisa.range_select(dst, b, "greater", "greater", zero, zero, reduce_cmd=nisa.reduce_cmd.reset)
        nisa.select_reduce(dst, always, a, 0.0, reduce_cmd=nisa.reduce_cmd.reduce, reduce_res=result)
        assert result.array().tolist() == [[9.0], [3.0]]


def test_going_on_from_registers_that_nothing_has_set_is_an_error():
    with core_of() as core:
        a = tile(core, np.ones((4, 2), np.float32))
        always = tile(core, np.ones((4, 2)), "uint8")
        dst = blank((4, 2), "float32")

        def go_on():
            nisa.select_reduce(dst, always, a, 0.0, reduce_cmd=nisa.reduce_cmd.reduce)

        with pytest.raises(KernelError, match="partition 0 never reset"):
            go_on()
        nisa.select_reduce(dst[:2], always[:2], a[:2], 0.0, reduce_cmd=nisa.reduce_cmd.reset_reduce)
        with pytest.raises(KernelError, match="partition 2 never reset"):
            go_on()
        nisa.select_reduce(dst, always, a, 0.0, reduce_cmd=nisa.reduce_cmd.reset_reduce)
        go_on()
        nisa.select_reduce(dst, always, a, 0.0)  # idle leaves them unknown
        with pytest.raises(KernelError, match=r"begin with reduce_cmd\.reset_reduce"):
            go_on()


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 5),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.sampled_from(["int8", "uint8", "int16", "uint16", "bool"]),
    st.sampled_from(
        [("float32", "bfloat16"), ("int16", "float32"), ("uint8", "int8"), ("bfloat16", "bfloat16")]
    ),
    st.booleans(),
    st.booleans(),
    layouts,
    layouts,
)
def test_select_reduce_takes_one_or_the_other(partitions, free, kind, dtypes, reverse, vector, one, two):
    rng = np.random.default_rng(partitions)
    shape = (partitions, *free)
    data, chosen = rng.integers(0, 100, shape), rng.integers(0, 3, shape)
    other = rng.integers(0, 100, (partitions, 1)) if vector else np.full((partitions, 1), 42)
    with core_of() as core:
        dst, result = blank(shape, dtypes[1], layout=two), blank((partitions, 1), "float32")
        nisa.select_reduce(
            dst,
            tile(core, chosen, kind, layout=two),
            tile(core, data, dtypes[0], layout=one),
            tile(core, other, "float32") if vector else 42,
            reduce_res=result,
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
            reverse_pred=reverse,
        )
        got, most = numbers(dst), numbers(result)
    for row in range(partitions):
        kept = []
        for at in np.ndindex(*free):
            taken = (chosen[(row, *at)] != 0) != reverse
            kept.append(float(data[(row, *at)] if taken else other[row, 0]))
            assert got[(row, *at)] == kept[-1]
        assert most[row, 0] == max(kept)


def test_select_reduce_gives_nan_for_a_row_with_nan():
    with core_of() as core:
        dst, result = blank((1, 2), "float32"), blank((1, 1), "float32")
        source = tile(core, np.array([[np.nan, 1.0]]), "float32")
        nisa.select_reduce(
            dst,
            tile(core, np.ones((1, 2)), "uint8"),
            source,
            0.0,
            reduce_res=result,
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )
        assert np.isnan(result.array()).all()
        assert np.array_equal(bits(dst.array()), bits(source.array()))


def test_an_input_that_was_never_written_is_found_in_every_instruction_that_selects():
    with core_of() as core:
        empty, full = blank((2, 8), "float32"), tile(core, np.ones((2, 8), np.float32))
        bound, predicate = tile(core, np.ones((2, 1), np.float32)), blank((2, 8), "uint8")
        dst = blank((2, 8), "float32")
        for call in (
            lambda: nisa.affine_select(dst, [[1, 8]], 0, empty, 0.0),
            lambda: nisa.range_select(dst, empty, "less", "less", bound, bound),
            lambda: nisa.range_select(dst, full, "less", "less", bound, empty[:, :1]),
            lambda: nisa.select_reduce(dst, predicate, full, 0.0),
            lambda: nisa.sequence_bounds(blank((1, 16), "float32"), empty[:1]),
        ):
            with pytest.raises(KernelError, match="written before it is read"):
                call()


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=20),
    st.sampled_from(["float32", "int32"]),
    st.sampled_from(["float32", "int32"]),
    layouts,
    layouts,
)
def test_sequence_bounds_are_the_ends_of_each_run_of_equal_ids(ids, source, target, one, two):
    n = len(ids)
    with core_of() as core:
        dst = blank((1, 2, n), target, layout=two)
        nisa.sequence_bounds(dst, tile(core, np.array([ids]), source, layout=one))
        got = numbers(dst)[0]
    for i, value in enumerate(ids):
        if value == 0:
            assert got[:, i].tolist() == [n, -1]
            continue
        first = after = i
        while first > 0 and ids[first - 1] == value:
            first -= 1
        while after < n and ids[after] == value:
            after += 1
        assert got[:, i].tolist() == [first, after]


@pytest.mark.parametrize("bad", [-1.0, 0.5, np.nan, np.inf])
def test_segment_ids_that_are_no_non_negative_integers_are_named_with_their_index(bad):
    with core_of() as core:
        ids = tile(core, np.array([[1.0, 2.0, bad]]), "float32")
        with pytest.raises(KernelError, match="at index 2 in segment_ids"):
            nisa.sequence_bounds(blank((1, 2, 3), "int32"), ids)


@pytest.mark.parametrize("layout", ["strided", "inside", "low"])
def test_nothing_beside_the_destination_is_written_by_what_selects(layout):
    with core_of() as core:
        source = tile(core, np.arange(24.0).reshape(4, 6), "float32")
        bound, predicate = tile(core, np.ones((4, 1)), "float32"), tile(core, np.eye(4, 6), "uint8")
        dst = [blank((4, 6), "float32", layout=layout) for _ in range(4)]
        most = [blank((4, 1), "float32", layout=layout) for _ in range(2)]
        bounds = blank((1, 2, 3), "int32", layout=layout)
        nisa.iota(dst[0], [[1, 6]])
        nisa.affine_select(dst[1], [[1, 6]], 0, source, 0.0)
        nisa.range_select(dst[2], source, "less", "less", bound, bound, reduce_res=most[0])
        reset = nisa.reduce_cmd.reset_reduce
        nisa.select_reduce(dst[3], predicate, source, 0.0, most[1], reset)
        nisa.sequence_bounds(bounds, tile(core, np.ones((1, 3)), "int32"))
        assert all(only_inside(one) for one in [*dst, *most, bounds])
