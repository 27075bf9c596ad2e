"""Random instructions give what their engine's generator gives, lane by lane, and are reproducible from its state."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from single_core import blank, core_of, is_written, numbers, only_inside, tile

from twintrack.errors import KernelError
from twintrack.nki import isa as nisa

VECTOR, GPSIMD = nisa.engine.vector, nisa.engine.gpsimd
MASK = 2**32 - 1


def xorwow(words, count):
    """Marsaglia's generator in Python integers: numbers, and the words after them."""
    x, y, z, w, v, d = (int(one) for one in words)
    drawn = []
    for _ in range(count):
        t = (x ^ (x >> 2)) & MASK
        x, y, z, w = y, z, w, v
        v = (v ^ (v << 4) ^ t ^ (t << 1)) & MASK
        d = (d + 362437) & MASK
        drawn.append((d + v) & MASK)
    return drawn, [x, y, z, w, v, d]


def seeds(core, partitions, words, start=0):
    values = np.random.default_rng(partitions).integers(0, 2**32, (partitions, words))
    return tile(core, values, "uint32", layout="low" if start else "plain"), values


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 5),
    st.integers(1, 9),
    st.sampled_from(["int8", "uint8", "int16", "uint16", "int32", "uint32"]),
    st.sampled_from(["plain", "strided", "inside"]),
)
def test_rng_on_gpsimd_gives_the_low_bits_of_xorwow_from_the_state_that_was_set(
    partitions, size, dtype, layout
):
    with core_of("trn2") as core:
        state, words = seeds(core, partitions, 6)
        dst, after = blank((partitions, size), dtype, layout=layout), blank((partitions, 6), "uint32")
        nisa.rand_set_state(state)
        nisa.rng(dst, GPSIMD)
        nisa.rand_get_state(after)
        assert is_written(dst)
        got, left = dst.array().copy(), after.array().copy()
    width = 8 * np.dtype(dtype).itemsize
    for lane in range(partitions):
        drawn, rest = xorwow(words[lane], size)
        low = [one % 2**width for one in drawn]
        if dtype.startswith("i"):
            low = [one - 2**width if one >= 2 ** (width - 1) else one for one in low]
        assert got[lane].tolist() == low
        assert left[lane].tolist() == rest


def test_four_states_take_turns_in_a_lane_of_the_vector_engine_of_gen4():
    with core_of("trn3") as core:
        state, words = seeds(core, 2, 24)
        dst, after = blank((2, 8), "uint32"), blank((2, 24), "uint32", "psum")
        nisa.rand_set_state(state, VECTOR)
        nisa.rng(dst)
        nisa.rand_get_state(after, VECTOR)
        for lane in range(2):
            for stream in range(4):
                drawn, rest = xorwow(words[lane, 6 * stream : 6 * stream + 6], 2)
                assert dst.array()[lane, stream::4].tolist() == drawn
                assert after.array()[lane, 6 * stream : 6 * stream + 6].tolist() == rest


@pytest.mark.parametrize("chip", ["trn1", "trn2", "trn3"])
def test_the_same_seed_gives_the_same_numbers_on_the_vector_engine(chip):
    with core_of(chip) as core:
        one, two, three = (blank((4, 16), "uint32") for _ in range(3))
        for seed, dst in ((5, one), (6, two), (5, three)):
            nisa.set_rng_seed(tile(core, np.array([[seed]]), "uint32"))
            nisa.rng(dst)
        assert np.array_equal(one.array(), three.array())
        assert (one.array() != two.array()).mean() > 0.9
        assert len(np.unique(one.array())) == 64  # lanes and draws differ
        nisa.rng(two)
        assert not np.array_equal(one.array(), two.array())  # it goes on


def test_a_seed_is_its_32_bits_whatever_the_type_and_leaves_gpsimd_alone():
    with core_of("trn2") as core:
        before, after = blank((1, 6), "uint32"), blank((1, 6), "uint32")
        nisa.rand_get_state(before)
        drawn = []
        for dtype, value in (("float32", 1.0), ("uint32", 0x3F80_0000), ("int32", 0x3F80_0000)):
            nisa.set_rng_seed(tile(core, np.array([[value]]), dtype, "psum"))
            dst = blank((2, 4), "int32")
            nisa.rng(dst)
            drawn.append(dst.array().tolist())
        nisa.rand_get_state(after)
        assert drawn[0] == drawn[1] == drawn[2]
        assert before.array().tolist() == after.array().tolist()


def test_two_runs_without_a_seed_give_the_same_numbers_and_engines_differ():
    drawn = []
    for _ in range(2):
        with core_of("trn2"):
            vector, gpsimd = blank((8, 8), "uint32"), blank((8, 8), "uint32")
            nisa.rng(vector)
            nisa.rng(gpsimd, GPSIMD)
            drawn.append((vector.array().tolist(), gpsimd.array().tolist()))
    assert drawn[0] == drawn[1]
    assert drawn[0][0] != drawn[0][1]


def test_lanes_are_partitions_and_the_others_do_not_move():
    with core_of("trn2") as core:
        state, words = seeds(core, 32, 6, start=64)
        nisa.rand_set_state(state)
        whole = blank((128, 4), "uint32")
        nisa.rng(whole[64:96], GPSIMD)
        assert whole.array()[64].tolist() == xorwow(words[0], 4)[0]
        nisa.rng(whole[96:128], GPSIMD)
        left = blank((128, 6), "uint32")
        nisa.rand_get_state(left)
        assert left.array()[95].tolist() == xorwow(words[31], 4)[1]


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 4),
    st.integers(1, 9),
    st.sampled_from(["float32", "bfloat16", "float16", "int16", "tfloat32", "uint8"]),
    st.floats(-50, 50, width=32),
    st.floats(0.5, 100, width=32),
    st.booleans(),
    st.booleans(),
)
def test_rand2_scales_24_random_bits_between_its_limits(
    partitions, size, dtype, low, width, low_tile, high_tile
):
    least, most = np.float32(low), np.float32(low + width)
    with core_of("trn3") as core:
        bits, dst, single = (blank((partitions, size), one) for one in ("uint32", dtype, "float32"))
        nisa.rng(bits)
        limits = [
            tile(core, np.full((partitions, 1), one), "float32") if tiled else float(one)
            for one, tiled in ((least, low_tile), (most, high_tile))
        ]
        for out in (dst, single):
            nisa.set_rng_seed(tile(core, np.array([[0]]), "uint32"))
            nisa.rand2(out, *limits)
        words, got, exact = bits.array().copy(), dst.array().astype(np.float64), numbers(single)
        rounded = tile(core, exact, dtype).array().astype(np.float64)
    want = [
        [np.float32(float(least) + (int(one) >> 8) / 2**24 * (float(most) - float(least))) for one in row]
        for row in words
    ]
    assert np.array_equal(exact, np.array(want, np.float64))
    assert (exact >= least).all()
    assert (exact <= most).all()
    assert np.array_equal(got, rounded)


def test_rand2_is_uniform_and_spans_ranges_wider_than_float32():
    with core_of("trn3") as core:
        dst = blank((128, 64), "float32")
        nisa.rand2(dst, -1.0, 3.0)
        counts = np.histogram(dst.array(), bins=8, range=(-1, 3))[0]
        assert abs(counts - 1024).max() < 150  # five deviations
        nisa.rand2(dst, -3e38, 3e38)
        assert np.isfinite(dst.array()).all()
        low = np.zeros((4, 1), np.float32)
        low[2] = 7
        with pytest.raises(KernelError, match=r"7.0 and 5.0 at partition 2 in min"):
            nisa.rand2(dst[:4], tile(core, low), 5.0)
        low[2] = np.nan
        with pytest.raises(KernelError, match="at partition 2 in min"):
            nisa.rand2(dst[:4], tile(core, low), 5.0)


def test_seeds_and_states_that_were_never_written_are_found():
    with core_of("trn2"):
        with pytest.raises(KernelError, match="src_seeds written before"):
            nisa.set_rng_seed(blank((1, 1), "uint32"))
        with pytest.raises(KernelError, match="src_seeds written before"):
            nisa.rand_set_state(blank((4, 6), "uint32"))


@pytest.mark.parametrize("layout", ["strided", "inside", "low"])
def test_nothing_beside_the_destination_is_written_by_what_draws(layout):
    with core_of("trn3"):
        bits, state = blank((4, 5), "int16", layout=layout), blank((4, 24), "uint32", layout=layout)
        uniform = blank((4, 5), "bfloat16", layout=layout)
        nisa.rng(bits)
        nisa.rand2(uniform, 0.0, 1.0)
        nisa.rand_get_state(state, VECTOR)
        assert all(only_inside(one) for one in (bits, state, uniform))
