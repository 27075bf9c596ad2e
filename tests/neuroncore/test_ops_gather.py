"""What gathers, shuffles, searches and counts compute, against plain Python loops from the documentation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from single_core import LAYOUTS, bits, blank, core_of, is_written, numbers, only_inside, tile, written_mask

from twintrack.errors import KernelError
from twintrack.nki import isa as nisa

layouts = st.sampled_from(LAYOUTS)
seeds = st.integers(0, 2**32 - 1)


# gathers


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([16, 32, 48, 128]),
    st.integers(1, 4),
    st.sampled_from([1, 2, 4]),
    st.integers(0, 15),
    st.sampled_from(["float32", "bfloat16", "int8", "uint32"]),
    st.booleans(),
    layouts,
    layouts,
    seeds,
)
def test_local_gather_takes_the_list_of_16_partitions_down_the_partitions_first(
    partitions, columns, per_index, fewer, dtype, folded, one, two, seed
):
    rng = np.random.default_rng(seed)
    data = (
        rng.integers(-100, 100, (partitions, 12))
        if dtype != "uint32"
        else rng.integers(0, 9, (partitions, 12))
    )
    index = rng.integers(0, 12 - per_index + 1, (partitions, columns))
    count = 16 * columns - fewer
    with core_of() as core:
        source = tile(core, data.reshape(partitions, 3, 4) if folded else data, dtype, layout=one)
        dst = blank((partitions, count, per_index), dtype, layout=two)
        given_count = count if fewer else None
        nisa.local_gather(dst, source, tile(core, index, "uint16", layout=two), per_index, given_count)
        assert is_written(dst)
        got = numbers(dst)
    for group in range(0, partitions, 16):
        listed = []
        for column in range(columns):
            listed.extend(index[partition, column] for partition in range(group, group + 16))
        for partition in range(group, group + 16):
            for i in range(count):
                for j in range(per_index):
                    assert got[partition, i, j] == data[partition, listed[i] + j]


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 5),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.lists(st.integers(1, 3), min_size=1, max_size=2),
    st.sampled_from(["float32", "float8_e5m2", "int16"]),
    layouts,
    layouts,
    seeds,
)
def test_nc_n_gather_indexes_each_partition_as_if_it_had_one_free_dimension(
    partitions, free, wanted, dtype, one, two, seed
):
    rng = np.random.default_rng(seed)
    data = rng.integers(-8, 8, (partitions, *free))
    index = rng.integers(0, math.prod(free), (partitions, *wanted))
    with core_of() as core:
        dst = blank(index.shape, dtype, layout=two)
        nisa.nc_n_gather(dst, tile(core, data, dtype, layout=one), tile(core, index, "uint32", layout=two))
        got = numbers(dst)
    for at in np.ndindex(*index.shape):
        assert got[at] == data[at[0]].reshape(-1)[index[at]]


def test_an_index_outside_is_named_with_its_partition_and_operand():
    with core_of() as core:
        data = tile(core, np.ones((32, 5), np.float32))
        index = np.zeros((32, 2), np.int64)
        index[17, 1] = 5
        with pytest.raises(KernelError, match="index 5 at partition 17, element 1 in indices"):
            nisa.nc_n_gather(blank((32, 2), "float32"), data, tile(core, index, "uint32"))
        with pytest.raises(KernelError, match="index 5 at partition 17, element 1 in index,"):
            nisa.local_gather(blank((32, 32), "float32"), data, tile(core, index, "uint16"))
        index[17, 1] = 4
        nisa.local_gather(blank((32, 32), "float32"), data, tile(core, index, "uint16"))
        with pytest.raises(KernelError, match="from 0 to 3"):
            nisa.local_gather(blank((32, 64), "float32"), data, tile(core, index, "uint16"), 2)


def test_gathers_need_only_what_they_gather_and_the_indices_that_are_valid():
    with core_of() as core:
        data = blank((16, 4), "float32")
        nisa.memset(data[:, 1:3], 7.0)
        index = blank((16, 2), "uint16")
        nisa.memset(index[:, :1], 1)
        nisa.memset(index[:8, 1:], 2)
        dst = blank((16, 24), "float32")
        nisa.local_gather(dst, data, index, 1, 24)
        assert (numbers(dst) == 7).all()
        with pytest.raises(KernelError, match="index written before it is read"):
            nisa.local_gather(blank((16, 25), "float32"), data, index, 1, 25)
        with pytest.raises(KernelError, match="src_buffer written before it is read"):
            nisa.local_gather(blank((16, 48), "float32"), data, index, 2, 24)
        some = tile(core, np.full((16, 3), 2), "uint32")
        nisa.nc_n_gather(dst[:, :3], data, some)
        with pytest.raises(KernelError, match="data written before it is read"):
            nisa.nc_n_gather(dst[:, :3], data, tile(core, np.full((16, 3), 3), "uint32"))
        folded = index.reshape((16, 1, 2))
        nisa.local_gather(dst, data, folded, 1, 24)
        with pytest.raises(KernelError, match="index written before it is read"):
            nisa.local_gather(blank((16, 25), "float32"), data, folded, 1, 25)


def test_gathers_keep_every_bit():
    nan = np.array([[0x7FA0_0001, 0xFFFF_FFFF, 0x8000_0000]], np.uint32).repeat(16, 0).view(np.float32)
    with core_of() as core:
        source = blank((16, 3), "float32")
        source.array()[...] = nan
        core.wrote(source)
        dst = blank((16, 3), "float32")
        nisa.nc_n_gather(dst, source, tile(core, np.tile([2, 1, 0], (16, 1)), "uint32"))
        assert np.array_equal(bits(dst.array()), bits(nan[:, ::-1]))


# across partitions


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from([1, 7, 32, 40, 64, 96, 128]),
    st.lists(st.integers(-1, 31), min_size=32, max_size=32),
    st.sampled_from(["float32", "bfloat16", "uint8"]),
    st.sampled_from(["sbuf", "psum"]),
    layouts,
    layouts,
)
def test_nc_stream_shuffle_moves_within_quadrants_and_keeps_where_the_mask_is_255(
    partitions, mask, dtype, region, one, two
):
    last = (partitions - 1) % 32
    mask = [255 if source < 0 else min(source, last) for source in mask]
    rng = np.random.default_rng(partitions)
    data, before = rng.integers(0, 100, (2, partitions, 2, 3))
    one, two = ("plain", "plain") if partitions > 32 else (one, two)
    with core_of() as core:
        dst = tile(core, before, dtype, region, two)
        nisa.nc_stream_shuffle(dst, tile(core, data, dtype, layout=one), mask)
        got = numbers(dst)
    for partition in range(partitions):
        source = mask[partition % 32]
        want = before[partition] if source == 255 else data[partition // 32 * 32 + source]
        assert np.array_equal(got[partition], want)


def test_nc_stream_shuffle_in_place_reads_all_before_it_writes():
    with core_of() as core:
        both = tile(core, np.arange(64.0).reshape(32, 2), "float32")
        nisa.nc_stream_shuffle(both, both, [(i - 1) % 32 for i in range(32)])
        assert np.array_equal(both.array(), np.roll(np.arange(64.0).reshape(32, 2), 1, axis=0))


def test_a_mask_of_255_everywhere_changes_nothing_and_reads_nothing():
    for values in (True, False):
        with core_of(values=values):
            dst = blank((64, 2), "float32")
            nisa.nc_stream_shuffle(dst, blank((64, 2), "float32"), [255] * 32)
            assert not written_mask(dst).any()


def test_nc_stream_shuffle_broadcasts_one_partition():
    with core_of() as core:
        dst = blank((32, 4), "float32")
        source = tile(core, np.arange(4.0)[None], "float32")
        nisa.nc_stream_shuffle(dst, source, [0] * 32)
        assert np.array_equal(dst.array(), np.tile(np.arange(4.0), (32, 1)))


def test_nc_stream_shuffle_reads_and_writes_only_the_partitions_of_the_mask():
    with core_of():
        source, dst = blank((64, 3), "float32"), blank((64, 3), "float32")
        nisa.memset(source[0:32], 1.0)
        nisa.memset(source[32:64], 2.0)
        mask = [255] * 32
        mask[3], mask[4], mask[9] = 0, 8, 31
        nisa.nc_stream_shuffle(dst, source, mask)
        written = written_mask(dst)
        want = np.zeros((64, 3), bool)
        want[[3, 4, 9, 35, 36, 41]] = True
        assert np.array_equal(written, want)
        assert (numbers(dst)[[3, 4, 9]] == 1).all()
        assert (numbers(dst)[[35, 36, 41]] == 2).all()
        part = blank((32, 3), "float32")
        nisa.memset(part[0:9], 1.0)
        mask[9] = 8
        nisa.nc_stream_shuffle(dst[:32], part, mask)
        mask[9] = 9
        with pytest.raises(KernelError, match="src written before it is read"):
            nisa.nc_stream_shuffle(dst[:32], part, mask)


# searches


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 4),
    st.sampled_from([(8,), (3, 4), (33,)]),
    st.sampled_from(["float32", "bfloat16", "int8", "uint16"]),
    st.sampled_from(["float32", "bfloat16", "int16"]),
    layouts,
    layouts,
    seeds,
)
def test_max8_gives_the_eight_largest_in_descending_order(partitions, free, source, target, one, two, seed):
    data = np.random.default_rng(seed).integers(0, 100, (partitions, *free))
    with core_of() as core:
        dst = blank((partitions, 8), target, layout=two)
        nisa.max8(dst, tile(core, data, source, layout=one))
        got = numbers(dst)
    for row in range(partitions):
        left = data[row].reshape(-1).tolist()
        for column in range(8):
            assert got[row, column] == max(left)
            left.remove(max(left))


def test_max8_takes_nan_as_the_largest_and_knows_infinities():
    data = np.array([[1.0, np.inf, -np.inf, np.nan, 2.0, 3.0, 4.0, 5.0, 6.0]])
    with core_of() as core:
        dst = blank((1, 8), "float32")
        nisa.max8(dst, tile(core, data, "float32"))
        assert np.array_equal(numbers(dst)[0], [np.nan, np.inf, 6, 5, 4, 3, 2, 1], equal_nan=True)


def find(data, vals, order):
    """The documented rule, one partition: each value has the first position that no equal one before it has."""
    found, used = [None] * 8, set()
    for column in order:
        for at, value in enumerate(data):
            if value == vals[column] and at not in used:
                found[column] = at
                used.add(at)
                break
    return found


few = st.lists(st.integers(0, 4), min_size=8, max_size=20)
eight = st.lists(st.integers(0, 5), min_size=8, max_size=8)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(few, eight), min_size=1, max_size=3),
    st.sampled_from(["uint16", "uint32"]),
    st.sampled_from(["float32", "bfloat16", "int32"]),
    st.floats(-9, 9, width=16),
    layouts,
    layouts,
)
def test_find_and_replace_pair_equal_values_with_positions_in_opposite_orders(
    rows, indices, dtype, imm, one, two
):
    size = min(len(data) for data, _ in rows)
    data = np.array([data[:size] for data, _ in rows])
    vals = np.array([values for _, values in rows])
    none = 2**16 - 1 if indices == "uint16" else 2**32 - 1
    with core_of() as core:
        source, wanted = tile(core, data, dtype, layout=one), tile(core, vals, "float32", layout=two)
        dst, found = blank((len(rows), 8), indices, layout=two), blank((len(rows), 8), indices, layout=one)
        replaced = blank(data.shape, "float32", layout=two)
        nisa.nc_find_index8(dst, source, wanted)
        nisa.nc_match_replace8(replaced, source, wanted, imm, found)
        first, second, values = numbers(dst), numbers(found), numbers(replaced)
    for row in range(len(rows)):
        up = find(data[row], vals[row], range(8))
        down = find(data[row], vals[row], range(7, -1, -1))
        assert first[row].tolist() == [none if at is None else at for at in up]
        assert second[row].tolist() == [none if at is None else at for at in down]
        want = [imm if at in down else float(value) for at, value in enumerate(data[row])]
        assert values[row].tolist() == want


def test_the_documented_example_of_equal_values():
    data = np.array([[1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8]])
    with core_of() as core:
        source, wanted = tile(core, data, "float32"), tile(core, np.array([[3] + [8] * 7]), "float32")
        dst, idx = blank((1, 11), "float32"), blank((1, 8), "uint32")
        nisa.nc_match_replace8(dst, source, wanted, -1.0, idx)
        assert idx.array().tolist() == [[2, 10, 9, 8, 7, 6, 5, 4]]
        assert dst.array().tolist() == [[1, 2, -1, 4] + [-1] * 7]
        nisa.nc_find_index8(idx, source, wanted)
        assert idx.array().tolist() == [[2, 4, 5, 6, 7, 8, 9, 10]]


def test_a_position_is_not_matched_twice_and_nan_is_not_found():
    with core_of() as core:
        source = tile(core, np.array([[8.0, 8, np.nan, 1, 1, 1, 1, 1]]), "float32")
        wanted = tile(core, np.array([[8.0, 8, np.nan, 5, 5, 5, 5, 5]]), "float32")
        dst, idx = blank((1, 8), "float32"), blank((1, 8), "uint16")
        nisa.nc_match_replace8(dst, source, wanted, 8.0, idx)
        assert idx.array().tolist() == [[1, 0] + [65535] * 6]
        nisa.nc_match_replace8(source, source, wanted, -np.inf)
        assert numbers(source)[0, :2].tolist() == [-np.inf, -np.inf]
        assert np.isnan(numbers(source)[0, 2])


def test_replacing_repeatedly_sorts_a_row():
    data = np.random.default_rng(3).permutation(64).reshape(2, 32)
    with core_of() as core:
        work = tile(core, data, "float32")
        top = blank((2, 8), "float32")
        got = []
        for _ in range(4):
            nisa.max8(top, work)
            nisa.nc_match_replace8(work, work, top, float("-inf"))
            got.append(numbers(top).copy())
    assert np.array_equal(np.concatenate(got, axis=1), np.sort(data, axis=1)[:, ::-1])


# counting and the largest k


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([1, 16, 17, 50, 128]),
    st.integers(1, 9),
    st.sampled_from(["float32", "int32"]),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**31), 2**31 - 1),
    layouts,
    layouts,
    seeds,
)
def test_nonzero_with_count_lists_indices_then_padding_then_their_number(
    partitions, size, dtype, offset, padding, one, two, seed
):
    data = np.random.default_rng(seed).integers(0, 2, (partitions, size))
    with core_of() as core:
        dst = blank((partitions, size + 1), "int32", layout=two)
        nisa.nonzero_with_count(dst, tile(core, data, dtype, layout=one), offset, padding)
        got, written = dst.array().copy(), written_mask(dst)
    for partition in range(partitions):
        assert (written[partition] == (partition % 16 == 0)).all()
        if partition % 16:
            continue
        want = [(i + offset + 2**31) % 2**32 - 2**31 for i in range(size) if data[partition, i] != 0]
        count = len(want)
        want += [padding] * (size - count) + [count]
        assert got[partition].tolist() == want


def test_nonzero_with_count_reads_only_every_16th_partition():
    with core_of():
        source, dst = blank((32, 4), "float32"), blank((32, 5), "int32")
        nisa.memset(source[0:1], 1.0)
        with pytest.raises(KernelError, match="src written before it is read"):
            nisa.nonzero_with_count(dst, source)
        nisa.memset(source[:17], 0.0)
        nisa.memset(source[0:1], 1.0)
        nisa.nonzero_with_count(dst, source)
        assert dst.array()[[0, 16]].tolist() == [[0, 1, 2, 3, 4], [-1, -1, -1, -1, 0]]


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([16, 32]), st.integers(8, 40), st.data(), layouts, layouts, seeds)
def test_topk_sorts_the_snake_of_16_partitions(partitions, n, data, one, two, seed):
    k = data.draw(st.integers(1, n))
    width = -(-n // 16) + data.draw(st.integers(0, 1))
    values = np.random.default_rng(seed).integers(0, 9, (partitions, width))
    with core_of() as core:
        val, idx = (
            blank((partitions, k), "bfloat16", layout=two),
            blank((partitions, k), "uint32", layout=one),
        )
        nisa.topk(val, idx, tile(core, values, "bfloat16", layout=one), n)
        got, where = numbers(val), numbers(idx)
    for group in range(0, partitions, 16):
        snake = [(float(values[group + i % 16, i // 16]), i) for i in range(n)]
        best = sorted(snake, key=lambda pair: (-pair[0], pair[1]))[:k][::-1]
        for partition in range(group, group + 16):
            assert list(zip(got[partition], where[partition], strict=True)) == best


def test_topk_takes_nan_as_largest_and_needs_only_the_active_elements():
    with core_of():
        source = blank((16, 2), "bfloat16")
        nisa.memset(source[:, :1], 1.0)
        val, idx = blank((16, 2), "bfloat16"), blank((16, 2), "uint32")
        with pytest.raises(KernelError, match="src written before it is read"):
            nisa.topk(val, idx, source, 20)
        nisa.memset(source[:4, 1:], float("nan"))
        nisa.topk(val, idx, source, 20)
        assert np.isnan(numbers(val)).all()
        assert idx.array().tolist() == [[17, 16]] * 16


def test_an_input_that_was_never_written_is_found_in_every_search():
    with core_of() as core:
        empty, full = blank((2, 8), "float32"), tile(core, np.ones((2, 8), np.float32))
        dst, idx = blank((2, 8), "float32"), blank((2, 8), "uint32")
        for call in (
            lambda: nisa.max8(dst, empty),
            lambda: nisa.nc_find_index8(idx, empty, full),
            lambda: nisa.nc_find_index8(idx, full, empty),
            lambda: nisa.nc_match_replace8(dst, empty, full, 0.0),
            lambda: nisa.nc_match_replace8(dst, full, empty, 0.0),
        ):
            with pytest.raises(KernelError, match="written before it is read"):
                call()


def test_without_values_the_same_parts_are_checked_and_marked():
    mask = [255] * 32
    mask[3] = 8
    with core_of(values=False):
        source, dst = blank((32, 3), "float32"), blank((32, 3), "float32")
        nisa.memset(source[:8], 0.0)
        with pytest.raises(KernelError, match="src written before it is read"):
            nisa.nc_stream_shuffle(dst, source, mask)
        nisa.memset(source[:9], 0.0)
        nisa.nc_stream_shuffle(dst, source, mask)
        assert written_mask(dst).any(axis=1).nonzero()[0].tolist() == [3]
        counted = blank((32, 4), "int32")
        with pytest.raises(KernelError, match="src written before it is read"):
            nisa.nonzero_with_count(counted, source)
        nisa.memset(source[:17], 0.0)
        nisa.nonzero_with_count(counted, source)
        assert written_mask(counted).any(axis=1).nonzero()[0].tolist() == [0, 16]
        snake, index = blank((16, 2), "bfloat16"), blank((16, 2), "uint16")
        for tensor in (snake, index):
            nisa.memset(tensor[:, :1], 0)
            nisa.memset(tensor[:4, 1:], 0)
        nisa.topk(blank((16, 2), "bfloat16"), blank((16, 2), "uint32"), snake, 20)
        nisa.local_gather(blank((16, 20), "bfloat16"), snake, index, 1, 20)
        for call in (
            lambda: nisa.topk(blank((16, 2), "bfloat16"), blank((16, 2), "uint32"), snake, 21),
            lambda: nisa.local_gather(blank((16, 21), "bfloat16"), snake, index, 1, 21),
            lambda: nisa.local_gather(blank((16, 20), "int8"), blank((16, 9), "int8"), index, 1, 20),
            lambda: nisa.nc_n_gather(blank((16, 1), "int8"), snake.view("int8"), blank((16, 1), "uint32")),
        ):
            with pytest.raises(KernelError, match="written before it is read"):
                call()


def test_operands_can_be_chosen_at_run_time():
    pages = np.stack([np.full((32, 8), 9.0), np.arange(32.0)[:, None].repeat(8, 1)], axis=1)
    with core_of() as core:
        source = tile(core, pages, "float32").select(1, tile(core, np.array([[1]]), "int32"))
        dst = blank((32, 8), "float32")
        nisa.nc_stream_shuffle(dst, source, [31] * 32)
        assert (dst.array() == 31).all()
        nisa.max8(dst, source)
        assert np.array_equal(dst.array(), pages[:, 1])
        nisa.nc_n_gather(dst[:, :2], source, tile(core, np.zeros((32, 2)), "uint32"))
        assert np.array_equal(dst.array()[:, 0], np.arange(32.0))
        many = blank((32, 2, 8), "float32")
        nisa.nc_stream_shuffle(many.select(1, tile(core, np.array([[1]]), "int32")), source, [5] + [255] * 31)
        assert np.argwhere(written_mask(many)).tolist() == [[0, 1, i] for i in range(8)]
        outside = tile(core, pages, "float32").select(1, tile(core, np.array([[2]]), "int32"))
        with pytest.raises(KernelError, match="index 2"):
            nisa.nc_stream_shuffle(dst, outside, [31] * 32)


@pytest.mark.parametrize("layout", ["strided", "inside", "low"])
def test_nothing_beside_the_destination_is_written_by_gathers_and_searches(layout):
    with core_of() as core:
        source = tile(core, np.arange(512.0).reshape(32, 16), "float32")
        index = tile(core, np.ones((32, 1)), "uint16")
        dst = [blank((32, 16), "float32", layout=layout) for _ in range(4)]
        eight, found = blank((32, 8), "float32", layout=layout), blank((32, 8), "uint16", layout=layout)
        where, best = blank((32, 8), "uint32", layout=layout), blank((32, 8), "bfloat16", layout=layout)
        replaced = blank((32, 8), "uint32", layout=layout)
        nisa.local_gather(dst[0], source, index)
        nisa.nc_n_gather(dst[1], source, tile(core, np.ones((32, 16)), "uint32"))
        nisa.nc_stream_shuffle(dst[2], source, [0] * 32)
        nisa.max8(eight, source)
        nisa.nc_find_index8(found, source, eight)
        nisa.nc_match_replace8(dst[3], source, eight, 0.0, replaced)
        nisa.topk(best, where, tile(core, source.array(), "bfloat16"), 100)
        assert all(only_inside(one) for one in [*dst, eight, found, where, best, replaced])


def test_an_index_outside_is_reported_at_the_author_s_line():
    with (
        core_of() as core,
        pytest.raises(KernelError, match=r"test_ops_gather\.py:\d+: required indices from 0"),
    ):
        nisa.nc_n_gather(
            blank((1, 1), "int8"), tile(core, np.ones((1, 1)), "int8"), tile(core, np.ones((1, 1)), "uint32")
        )


def test_without_rounding_narrow_floats_keep_their_digits():
    third = np.float32(1) / np.float32(3)
    with core_of(precise=False) as core:
        source = blank((16, 8), "bfloat16")
        nisa.memset(source, 1 / 3)
        best, where = blank((16, 8), "bfloat16"), blank((16, 8), "uint32")
        nisa.topk(best, where, source, 20)
        moved, largest, replaced = (blank((16, 8), "bfloat16") for _ in range(3))
        nisa.nc_n_gather(moved, source, tile(core, np.ones((16, 8)), "uint32"))
        nisa.max8(largest, source)
        nisa.nc_match_replace8(replaced, source, tile(core, np.zeros((16, 8)), "float32"), 1.0)
        masked = blank((16, 8), "float16")
        nisa.affine_select(masked, [[1, 8]], 0, source, 1 / 3, "less")
        for one in (best, moved, largest, replaced, masked):
            assert (one.array() == third).all()
