"""Random generators are those of the cited papers and depend on their state alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twintrack.neuroncore.emulator.random_state import (
    LANES,
    GeneratorKind,
    draw,
    generator_kind,
    low_bits,
    read_words,
    seeded,
    uniform,
    write_words,
)

KINDS = [generator_kind("vector", 3), generator_kind("gpsimd", 3), generator_kind("vector", 4)]
WORD = 1 << 32


def xorwow(state):
    """Marsaglia 2003, page 5, with Python integers; gives the new state and the output."""
    x, y, z, w, v, d = state
    t = x ^ (x >> 2)
    x, y, z, w = y, z, w, v
    v = (v ^ (v << 4)) ^ (t ^ (t << 1))
    v, d = v % WORD, (d + 362437) % WORD
    return [x, y, z, w, v, d], (d + v) % WORD


def xorshift128(state):
    """Marsaglia 2003, page 4."""
    x, y, z, w = state
    t = (x ^ (x << 11)) % WORD
    new = (w ^ (w >> 19)) ^ (t ^ (t >> 8))
    return [y, z, w, new], new


STEP = {"xorwow": xorwow, "xorshift128": xorshift128}


def by_name(kind):
    return f"{kind.algorithm}x{kind.streams}"


def test_the_engines_have_the_documented_generators():
    assert [generator_kind("gpsimd", g).lane_words for g in (3, 4)] == [6, 6]
    assert generator_kind("vector", 4).lane_words == 24
    assert generator_kind("vector", 4).algorithm == generator_kind("gpsimd", 3).algorithm == "xorwow"
    assert generator_kind("vector", 2) == generator_kind("vector", 3) == GeneratorKind("xorshift128", 1)
    with pytest.raises(KeyError):
        generator_kind("gpsimd", 2)


def test_xorwow_from_the_papers_own_state():
    """Marsaglia's listing starts at these words."""
    start = [123456789, 362436069, 521288629, 88675123, 5783321, 6615241]
    state = write_words(seeded(generator_kind("gpsimd", 3), 0), 7, np.array([start], np.uint32))
    _, bits = draw(state, 7, 1, 5)
    want = []
    for _ in range(5):
        start, output = xorwow(start)
        want.append(output)
    assert bits[0].tolist() == want
    assert want[0] == 246875399


@pytest.mark.parametrize("kind", KINDS, ids=by_name)
@given(
    seed=st.integers(0, WORD - 1),
    lane=st.integers(0, 100),
    lanes=st.integers(1, 20),
    counts=st.lists(st.integers(0, 23), min_size=1, max_size=3),
)
@settings(max_examples=25, deadline=None)
def test_words_are_those_of_the_recurrence_in_every_lane(kind, seed, lane, lanes, counts):
    state = seeded(kind, seed)
    streams = [[list(map(int, one)) for one in lane_words] for lane_words in state.words]
    for count in counts:
        state, bits = draw(state, lane, lanes, count)
        assert bits.shape == (lanes, count)
        want = np.zeros((lanes, -(-count // kind.streams) * kind.streams), np.uint32)
        for p in range(lanes):
            for i in range(want.shape[1]):
                s = i % kind.streams
                streams[lane + p][s], want[p, i] = STEP[kind.algorithm](streams[lane + p][s])
        np.testing.assert_array_equal(bits, want[:, :count])
        np.testing.assert_array_equal(state.words, np.array(streams, np.uint32))


@pytest.mark.parametrize("kind", KINDS, ids=by_name)
def test_a_state_read_and_written_back_continues_where_it_was(kind):
    state, _ = draw(seeded(kind, 9), 0, LANES, 13)
    words = read_words(state, 32, 64)
    assert words.shape == (64, kind.lane_words)
    _, want = draw(state, 32, 64, 10)
    elsewhere = write_words(seeded(kind, 1), 0, words)
    _, got = draw(elsewhere, 0, 64, 10)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(elsewhere.words[64:], seeded(kind, 1).words[64:])


@pytest.mark.parametrize("kind", KINDS, ids=by_name)
def test_a_state_never_changes(kind):
    state = seeded(kind, 3)
    before = state.words.copy()
    draw(state, 0, LANES, 5)
    write_words(state, 0, read_words(state, 1, 2))
    np.testing.assert_array_equal(state.words, before)
    with pytest.raises(ValueError, match="read-only"):
        state.words[0, 0, 0] = 1


@pytest.mark.parametrize("kind", KINDS, ids=by_name)
def test_seeds_lanes_and_streams_differ_and_a_seed_repeats(kind):
    words = [seeded(kind, seed).words.reshape(-1, kind.words) for seed in (0, 1, 2, WORD - 1)]
    assert len({row.tobytes() for one in words for row in one}) == 4 * LANES * kind.streams
    assert seeded(kind, 5).words.tobytes() == seeded(kind, 5).words.tobytes()
    for refused in (-1, WORD):
        with pytest.raises(ValueError, match="a seed must lie in"):
            seeded(kind, refused)


@pytest.mark.parametrize("kind", KINDS, ids=by_name)
def test_bits_are_balanced(kind):
    """Over 128 x 2048 words each of 32 bits is set half the time (five standard deviations), as are uniforms."""
    _, bits = draw(seeded(kind, 11), 0, LANES, 2048)
    ones = np.array([((bits >> np.uint32(i)) & 1).mean() for i in range(32)])
    sigma = 0.5 / bits.size**0.5
    assert (np.abs(ones - 0.5) < 5 * sigma).all()
    u = uniform(bits).astype(np.float64)
    assert abs(u.mean() - 0.5) < 5 * (1 / 12 / u.size) ** 0.5
    assert abs(u.var() - 1 / 12) < 5 * (1 / 180 / u.size) ** 0.5
    near = (
        np.corrcoef(u[:, :-1].ravel(), u[:, 1:].ravel())[0, 1],
        np.corrcoef(u[:-1].ravel(), u[1:].ravel())[0, 1],
    )
    assert np.abs(near).max() < 5 / u.size**0.5


@pytest.mark.parametrize("shape", [(1, 5), (1, 7), (6,)])
def test_a_wrong_number_of_words_is_refused(shape):
    with pytest.raises(ValueError, match="takes 6 words a lane"):
        write_words(seeded(generator_kind("gpsimd", 3), 0), 0, np.zeros(shape, np.uint32))
    with pytest.raises(ValueError, match="at 127"):
        write_words(seeded(generator_kind("gpsimd", 3), 0), 127, np.zeros((2, 6), np.uint32))


def test_uniform_numbers_are_exact_multiples_below_one():
    bits = np.array([0, 255, 256, WORD - 1], np.uint32)
    np.testing.assert_array_equal(uniform(bits), np.float32([0, 0, 2.0**-24, 1 - 2.0**-24]))


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32])
def test_an_integer_type_takes_the_least_significant_bits(kind):
    bits = np.array([0x12345678, 0xFFFFFFFE, 0x80], np.uint32)
    got = low_bits(bits, np.dtype(kind))
    assert got.dtype == kind
    width = 8 * np.dtype(kind).itemsize
    assert [int(one) % (1 << width) for one in got] == [int(one) % (1 << width) for one in bits]
