"""Reads, writes and casts give what exact rational arithmetic gives, for every pair of types."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from twintrack.neuroncore.convert import cast, round_to, store, to_float32
from twintrack.neuroncore.memory.dtypes import DTYPES
from twintrack.numerics.formats import FP32

NUMBERS = [one for one in DTYPES.values() if one.kind in ("float", "int", "uint", "bool")]
FLOATS = [one for one in NUMBERS if one.is_float]
NARROW = [one for one in FLOATS if one.number_format is not None]
INTEGERS = [one for one in NUMBERS if one.kind in ("int", "uint")]


def nearest_even(x, fmt):
    """The nearest number of a format by its definition; infinity, or NaN without one, beyond the largest."""
    if not math.isfinite(x):
        return x if fmt.has_infinity or math.isnan(x) else math.copysign(math.nan, x)
    exponent = max(math.frexp(x)[1] - 1, fmt.min_exponent)
    unit = Fraction(2) ** (exponent - fmt.mantissa_bits)
    magnitude = round(abs(Fraction(x)) / unit) * unit  # of Fraction: to even
    if magnitude > Fraction(fmt.max_finite):
        return math.copysign(math.inf if fmt.has_infinity else math.nan, x)
    return math.copysign(float(magnitude), x)


def expected(x, target):
    """Of one number (float or int) written to a type."""
    if target.is_float:
        single = nearest_even(x, FP32)
        return single if target.number_format is None else nearest_even(single, target.number_format)
    if target.kind == "bool":
        return float(x != 0)
    low, high = np.iinfo(target.stored).min, np.iinfo(target.stored).max
    if math.isnan(x):
        return 0.0
    if math.isinf(x):
        return float(low if x < 0 else high)
    return float(min(max(round(Fraction(x)), low), high))


def same(got, want):
    got, want = np.asarray(got, dtype=np.float64), np.asarray(want, dtype=np.float64)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


def ties(target):
    """float32 numbers at, between and just beside neighbours of a type, over its whole range, and special ones."""
    if target.is_float:
        fmt = target.number_format or FP32
        exponents = {
            fmt.min_exponent - fmt.mantissa_bits - 1,
            fmt.min_exponent - 1,
            -1,
            0,
            1,
            fmt.max_exponent,
        }
        top = 1 << fmt.mantissa_bits
        mantissas = {top, top + 1, top + 2, 2 * top - 2, 2 * top - 1}
        grid = [
            math.ldexp(m + half, e - fmt.mantissa_bits)
            for e in exponents
            for m in mantissas
            for half in (0, 0.5)
        ]
        grid += [math.ldexp(k / 2, fmt.min_exponent - fmt.mantissa_bits) for k in range(9)]
        grid += [fmt.max_finite, math.ldexp(fmt.max_finite, -1)]
    else:
        high = np.iinfo(target.stored).max
        grid = [
            0,
            0.25,
            0.5,
            0.75,
            1,
            1.5,
            2,
            2.5,
            3.5,
            high - 1,
            high - 0.5,
            high,
            high + 0.5,
            high + 1,
            2.0 * high,
            1e30,
        ]
    with np.errstate(over="ignore"):
        base = np.array(grid, dtype=np.float32)
        beside = np.concatenate(
            [base, np.nextafter(base, np.float32(0)), np.nextafter(base, np.float32(np.inf))]
        )
    special = np.array([np.inf, np.nan, 1e-45, 3.4028235e38], dtype=np.float32)
    return np.concatenate([beside, -beside, special, -special])


def elements(source):
    """Patterns of a type: all where it has one byte, else the special ones and many others."""
    if source.bytes == 1:
        return np.arange(256, dtype=np.uint8).view(source.stored)
    rng = np.random.default_rng(11)
    word = np.dtype(f"u{source.bytes}")
    bits = rng.integers(0, 1 << 8 * source.bytes, 600, dtype=np.uint64).astype(word)
    if source.is_float:
        return np.concatenate(
            [ties(source).astype(np.float32), bits.view(source.stored).astype(np.float32)]
        ).astype(source.stored)
    limits = np.iinfo(source.stored)
    odd = [
        limits.min,
        limits.max,
        limits.max - 1,
        0,
        1,
        min(limits.max, 2**24 + 1),
        min(limits.max, 2**24 + 3),
        257,
        2049,
    ]
    return np.concatenate([np.array(odd, dtype=source.stored), bits.view(source.stored)])


@pytest.mark.parametrize("target", NUMBERS, ids=str)
def test_float32_is_rounded_once_to_nearest_even_at_ties_carries_and_ends(target):
    x = ties(target)
    got = round_to(x, target)
    assert got.dtype == target.stored
    same(to_float32(got, target), np.float32([expected(float(one), target) for one in x]))


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning", "ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize("target", NUMBERS, ids=str)
@pytest.mark.parametrize("source", NUMBERS, ids=str)
def test_a_cast_goes_through_float32_and_leaves_the_same_type_untouched(source, target):
    x = elements(source)
    got = cast(x, source, target)
    assert got.dtype == target.stored
    assert got.shape == x.shape
    if source == target:
        assert got is x
        return
    through = [nearest_even(float(one), FP32) for one in x]  # a float64 holds every element exactly
    want = [expected(one, target) for one in through]
    want = np.array(want) if target.is_integer else np.float32(want)
    same(got.astype(np.float64) if target.is_integer else to_float32(got, target), want)


@pytest.mark.parametrize("source", [*NUMBERS, DTYPES["float8_e8m0fnu"]], ids=str)
def test_a_read_is_what_ml_dtypes_and_numpy_read_on_strided_views_too(source):
    kind = ml_dtypes.float8_e8m0fnu if source.kind == "scale" else source.stored
    x = np.arange(2**16, dtype=np.uint32).astype(np.uint8).view(source.stored).reshape(64, -1)
    for view in (x, x[::3, ::-2], x.T, x[:0]):
        with np.errstate(invalid="ignore"):
            want = np.ascontiguousarray(view).view(kind).astype(np.float32)
        got = to_float32(view, source)
        assert got.dtype == np.float32
        assert got.shape == view.shape
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("target", [one for one in NARROW if one != "tfloat32"], ids=str)
@given(bits=hnp.arrays(np.uint32, st.integers(1, 40)))
@settings(max_examples=60, deadline=None)
def test_rounding_any_float32_agrees_with_ml_dtypes_bit_for_bit(target, bits):
    x = bits.view(np.float32)
    with np.errstate(all="ignore"):
        want = x.astype(target.stored)
    word = f"u{target.bytes}"
    number = ~np.isnan(x)  # which payload a NaN has is left open
    got = round_to(x, target)
    np.testing.assert_array_equal(got.view(word)[number], want.view(word)[number])
    assert np.isnan(to_float32(got, target)[~number]).all()


@pytest.mark.parametrize("target", NARROW, ids=str)
def test_nan_stays_a_quiet_nan_of_its_sign_and_nobody_is_warned(target):
    x = np.array([0x7F800001, 0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FC00000], dtype=np.uint32).view(
        np.float32
    )
    for random_bits in (None, np.full(5, 0xFFFFFFFF, dtype=np.uint32)):
        got = to_float32(round_to(x, target, random_bits=random_bits), target)
        assert np.isnan(got).all()
        if random_bits is None or target == "bfloat16":
            np.testing.assert_array_equal(np.signbit(got), np.signbit(x))


@pytest.mark.parametrize("target", NARROW, ids=str)
def test_stochastic_rounding_goes_up_with_the_probability_of_the_discarded_fraction(target):
    """Over equally spaced random words the count of roundings up is exact."""
    unit = 2.0**-target.number_format.mantissa_bits
    shift = target.number_format.discarded_bits
    words = (np.arange(2**10, dtype=np.uint64) << (shift - 10)).astype(np.uint32)
    for quarters in (0, 1, 2, 3):
        for sign in (1, -1):
            x = np.full(words.shape, sign * (1 + quarters * unit / 4), dtype=np.float32)
            got = np.abs(to_float32(round_to(x, target, random_bits=words), target))
            assert set(got.tolist()) <= {1.0, 1.0 + unit}
            assert (got > 1).sum() == quarters * 2**8


@pytest.mark.parametrize("target", NARROW, ids=str)
def test_chance_never_makes_a_finite_number_infinite_and_leaves_infinity_alone(target):
    most = np.float32(target.number_format.max_finite)
    x = np.array([most, -most, np.nextafter(most, np.float32(np.inf)), np.inf, -np.inf], dtype=np.float32)
    if target.number_format.max_exponent == 127:
        x[2] = np.finfo(np.float32).max
    got = to_float32(round_to(x, target, random_bits=np.full(5, 0xFFFFFFFF, np.uint32)), target)
    np.testing.assert_array_equal(got[:3], [most, -most, most])
    beyond = np.inf if target.number_format.has_infinity else np.nan
    np.testing.assert_array_equal(got[3:], [beyond, -beyond])


@pytest.mark.parametrize("target", FLOATS, ids=str)
def test_without_precision_floats_are_held_as_float32(target):
    x = np.float32([1 / 3, 1e30, -1e-30])
    held = round_to(x, target, precise=False)
    assert held is x
    assert to_float32(held, target) is x
    assert cast(x, DTYPES["float32"], target, precise=False) is x


@pytest.mark.parametrize("target", INTEGERS, ids=str)
@given(value=st.integers(-(2**31), 2**32 - 1))
@settings(max_examples=80, deadline=None)
def test_exact_integers_saturate(target, value):
    source = np.int32 if value < 2**31 else np.uint32
    limits = np.iinfo(target.stored)
    assert int(round_to(np.array([value], dtype=source), target)[0]) == min(
        max(value, limits.min), limits.max
    )


@pytest.mark.parametrize("target", NUMBERS, ids=str)
def test_a_store_writes_what_round_to_gives_into_a_strided_place(target):
    x = np.concatenate([ties(target)[:60]]).reshape(6, 10)
    place = np.zeros((12, 30), dtype=target.stored)
    store(x, place[::2, ::3], target)
    want = round_to(x, target)
    assert place[::2, ::3].tobytes() == want.tobytes()
    place[::2, ::3] = 0
    assert not place.astype(np.float32).any()


def test_a_store_broadcasts_and_rounds_by_chance_as_round_to_does():
    target = DTYPES["bfloat16"]
    place = np.zeros((2, 3), dtype=target.stored)
    store(np.float32([[1.5], [2.5]]), place, target)
    np.testing.assert_array_equal(place.astype(np.float32), [[1.5] * 3, [2.5] * 3])
    x, words = np.full((2, 3), 1.001, np.float32), np.full((2, 3), 0xFFFF, np.uint32)
    store(x, place, target, random_bits=words)
    np.testing.assert_array_equal(place, round_to(x, target, random_bits=words))
    held = np.zeros((2, 3), dtype=np.float32)
    store(x, held, target, precise=False)
    np.testing.assert_array_equal(held, x)


def test_packed_words_are_no_numbers_but_pass_as_they_are():
    packed = DTYPES["float4_e2m1fn_x4"]
    words = np.array([1, 0xFFFF], dtype=np.uint16)
    assert round_to(words, packed) is words
    assert cast(words, packed, packed) is words
    with pytest.raises(TypeError, match="four elements"):
        to_float32(words, packed)
    with pytest.raises(TypeError, match="packed by quantisation"):
        round_to(np.float32([1.0]), packed)


def test_scales_are_bytes_or_powers_of_two():
    scale = DTYPES["float8_e8m0fnu"]
    x = np.float32([1.0, 2.0**-127, 2.0**127, 0.5])
    got = round_to(x, scale)
    np.testing.assert_array_equal(got, [127, 0, 254, 126])
    np.testing.assert_array_equal(to_float32(got, scale), x)
    np.testing.assert_array_equal(round_to(np.array([3, 255, 300], np.int32), scale), [3, 255, 255])
