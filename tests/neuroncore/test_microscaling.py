"""MX quantisation follows the documented scale formula group by group, and words keep their elements."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from twintrack.neuroncore.emulator.microscaling import dequantize, pack, quantize, scale_partitions, unpack
from twintrack.neuroncore.memory.dtypes import DTYPES

ELEMENTS = {
    "float8_e4m3fn_x4": (ml_dtypes.float8_e4m3fn, 8),
    "float8_e5m2_x4": (ml_dtypes.float8_e5m2, 15),
    "float4_e2m1fn_x4": (ml_dtypes.float4_e2m1fn, 2),
}
EIGHT_BIT = ["float8_e4m3fn_x4", "float8_e5m2_x4"]


@pytest.mark.parametrize("name", ELEMENTS)
def test_every_pattern_survives_packing_with_the_first_element_lowest(name):
    kind, _ = ELEMENTS[name]
    width = 4 if name.startswith("float4") else 8
    patterns = np.arange(1 << width, dtype=np.uint8).reshape(2, -1)
    words = pack(patterns.view(kind), DTYPES[name])
    assert words.dtype == DTYPES[name].stored
    want = [
        [sum(int(row[4 * i + k]) << width * k for k in range(4)) for i in range(len(row) // 4)]
        for row in patterns
    ]
    np.testing.assert_array_equal(words, want)
    np.testing.assert_array_equal(unpack(words, DTYPES[name]), patterns.view(kind).astype(np.float32))


@pytest.mark.parametrize("name", EIGHT_BIT)
@given(data=st.data(), power=st.integers(-140, 100))
@settings(max_examples=40, deadline=None)
def test_a_group_is_scaled_by_the_documented_power_and_rounded_without_saturation(name, data, power):
    kind, top = ELEMENTS[name]
    x = data.draw(hnp.arrays(np.float32, (16, 8), elements=st.floats(-7, 7, width=16)))
    x = np.ldexp(x, power).astype(np.float32)
    words, scales = quantize(x, DTYPES[name])
    assert (words.shape, scales.shape) == ((16, 2), (2, 2))
    for g in range(2):
        for f in range(2):
            group = x[8 * g : 8 * g + 8, 4 * f : 4 * f + 4].astype(np.float64)
            largest = np.abs(group).max()
            exponent = math.floor(math.log2(largest)) - (top - 1) if largest else -127
            assert int(scales[g, f]) == max(exponent, -127) + 127
            scaled = group / 2.0 ** (int(scales[g, f]) - 127)
            assert np.abs(scaled).max() < 2.0**top
            want = scaled.astype(np.float32).astype(kind).astype(np.float32)
            np.testing.assert_array_equal(unpack(words[8 * g : 8 * g + 8, f : f + 1], DTYPES[name]), want)


@pytest.mark.parametrize("name", ELEMENTS)
def test_dequantising_multiplies_every_group_by_its_scale(name):
    rng = np.random.default_rng(8)
    dtype = DTYPES[name]
    words = rng.integers(0, np.iinfo(dtype.stored).max, (16, 3), dtype=dtype.stored)
    scales = rng.integers(100, 150, (2, 3), dtype=np.uint8)
    scales[1, 2] = 255  # NaN
    got = dequantize(words, scales, dtype)
    plain = unpack(words, dtype)
    for p in range(16):
        for f in range(12):
            scale = scales[p // 8, f // 4]
            want = plain[p, f] * np.float32(2.0 ** (int(scale) - 127)) if scale != 255 else np.nan
            np.testing.assert_array_equal(got[p, f], want)


@pytest.mark.parametrize("name", EIGHT_BIT)
def test_what_was_dequantised_is_quantised_without_loss(name):
    """Numbers of three significant bits within a few binades are kept exactly."""
    rng = np.random.default_rng(4)
    x = np.ldexp(rng.choice([-7, -5, -4, 4, 6], (32, 16)), rng.integers(-3, 0, (32, 16))).astype(np.float32)
    np.testing.assert_array_equal(dequantize(*quantize(x, DTYPES[name]), DTYPES[name]), x)


def test_zeros_infinities_and_nan_have_the_stated_scales():
    x = np.zeros((8, 12), np.float32)
    x[3, 5], x[4, 9], x[0, 10] = np.inf, np.nan, 1.0
    words, scales = quantize(x, DTYPES["float8_e5m2_x4"])
    np.testing.assert_array_equal(scales, [[0, 128 - 14 + 127, 128 - 14 + 127]])
    numbers = unpack(words, DTYPES["float8_e5m2_x4"])
    assert numbers[3, 5] == np.inf
    assert np.isnan(numbers[4, 9])
    assert np.isnan(numbers).sum() == 1


def test_scales_lie_in_the_quadrant_of_their_group():
    assert scale_partitions(32).tolist() == [0, 1, 2, 3]
    assert scale_partitions(128).tolist() == [32 * q + i for q in range(4) for i in range(4)]
    assert scale_partitions(16).tolist() == [0, 1]


def test_parts_of_groups_and_other_types_are_refused():
    x = np.zeros((8, 8), np.float32)
    for part in (x[:4], x[:, :6]):
        with pytest.raises(ValueError, match="groups are 8 partitions by 4 elements"):
            quantize(part, DTYPES["float8_e5m2_x4"])
    for name in ("float4_e2m1fn_x4", "float32"):
        with pytest.raises(KeyError):
            quantize(x, DTYPES[name])
    with pytest.raises(ValueError, match="one scale for 8 partitions"):
        dequantize(np.zeros((8, 2), np.uint32), np.zeros((2, 2), np.uint8), DTYPES["float8_e5m2_x4"])
