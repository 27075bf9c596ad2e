"""Rounding agrees with exact rational arithmetic and with ml_dtypes, in NumPy and in torch alike."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from twintrack.numerics import (
    BF16,
    FORMATS,
    FP8_E3M4,
    FP8_E4M3,
    FP8_E4M3FN,
    FP8_E5M2,
    FP16,
    FP32,
    TF32,
    Format,
    rounding,
    rounding_numpy,
)

NARROW = [f for f in FORMATS.values() if f is not FP32]
ML_DTYPES = {
    BF16: ml_dtypes.bfloat16,
    FP16: np.float16,
    FP8_E5M2: ml_dtypes.float8_e5m2,
    FP8_E4M3: ml_dtypes.float8_e4m3,
    FP8_E4M3FN: ml_dtypes.float8_e4m3fn,
    FP8_E3M4: ml_dtypes.float8_e3m4,
}


def by_name(fmt: Format) -> str:
    return fmt.name


def numbers(fmt: Format) -> list[Fraction]:
    """Every finite magnitude of a format, written down from its definition, in order."""
    result = [Fraction(0)]
    for field in range(1 << fmt.exponent_bits):
        for mantissa in range(1 << fmt.mantissa_bits):
            top = field == (1 << fmt.exponent_bits) - 1
            if top and (fmt.has_infinity or mantissa == (1 << fmt.mantissa_bits) - 1):
                continue
            one = 0 if field == 0 else 1 << fmt.mantissa_bits
            exponent = max(field, 1) - fmt.bias - fmt.mantissa_bits
            result.append((one + mantissa) * Fraction(2) ** exponent)
    return sorted(set(result))


def some_numbers(fmt: Format) -> list[Fraction]:
    """All magnitudes of a small format; of a large one the ends of some binades, the last among them."""
    if fmt.mantissa_bits + fmt.exponent_bits <= 7:
        return numbers(fmt)
    last = (1 << fmt.mantissa_bits) - 1
    top = fmt.max_exponent + fmt.bias
    return sorted(
        (mantissa if field == 0 else (1 << fmt.mantissa_bits) + mantissa)
        * Fraction(2) ** (max(field, 1) - fmt.bias - fmt.mantissa_bits)
        for field in (0, 1, 2, fmt.bias - 1, fmt.bias, top - 1, top)
        for mantissa in (0, 1, 2, last // 2, last - 1, last)
    )


def exact_neighbours(x: float, fmt: Format) -> tuple[Fraction, Fraction, Fraction]:
    """Lower and upper neighbour of |x| in the format without an upper end, and the fraction between them."""
    value = abs(Fraction(x))
    exponent = max(math.frexp(x)[1] - 1, fmt.min_exponent)
    unit = Fraction(2) ** (exponent - fmt.mantissa_bits)
    count = value // unit
    return count * unit, (count + 1) * unit, value / unit - count


def exact_nearest_even(x: float, fmt: Format) -> float:
    if not math.isfinite(x):
        return x if fmt.has_infinity else math.nan
    lower, upper, fraction = exact_neighbours(x, fmt)
    odd = (lower / (upper - lower)) % 2 == 1
    up = fraction > Fraction(1, 2) or (fraction == Fraction(1, 2) and odd)
    magnitude = upper if up else lower
    if magnitude > Fraction(fmt.max_finite):
        return math.copysign(math.inf, x) if fmt.has_infinity else math.nan
    return math.copysign(float(magnitude), x)


def bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)


def same(a: np.ndarray, b: np.ndarray) -> None:
    """Equal as bit patterns, except that any NaN equals any NaN."""
    both = np.isnan(a) & np.isnan(b)
    np.testing.assert_array_equal(bits(a)[~both], bits(b)[~both])


def hard_values(fmt: Format) -> np.ndarray:
    """Ties, their neighbours, carries, overflow, subnormals, zeros, infinities, NaN payloads; both signs."""
    grid = some_numbers(fmt)
    above = min(float(grid[-1] + (grid[-1] - grid[-2])), float(np.finfo(np.float32).max))
    ends = np.array([*map(float, grid), above])
    units = np.spacing(ends) * 2.0 ** (52 - fmt.mantissa_bits)
    middles = ends + np.maximum(units, fmt.min_subnormal) / 2
    wide = np.concatenate([ends, middles, middles * 3, middles / 3])
    exact = np.minimum(wide, np.finfo(np.float32).max).astype(np.float32)
    near = np.concatenate([exact, np.nextafter(exact, np.float32(0)), np.nextafter(exact, np.float32(3e38))])
    small = np.array([1, 2, 3, 0x7FFFFF, 0x800000, 0x8000, 0x8001, 0x18000], dtype=np.uint32).view(np.float32)
    special = np.array([0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0x7F7FFFFF], dtype=np.uint32)
    positive = np.concatenate([near, small, special.view(np.float32)])
    return np.concatenate([positive, (bits(positive) | 0x80000000).view(np.float32)])


floats = hnp.arrays(np.uint32, st.integers(0, 40)).map(lambda a: a.view(np.float32))


@pytest.mark.parametrize("fmt", NARROW, ids=by_name)
def test_nearest_even_equals_rational_arithmetic_on_hard_values(fmt: Format) -> None:
    x = hard_values(fmt)
    expected = np.array([exact_nearest_even(float(v), fmt) for v in x], dtype=np.float32)
    same(rounding_numpy.round_nearest_even(x, fmt), expected)


@pytest.mark.parametrize("fmt", ML_DTYPES, ids=by_name)
@pytest.mark.filterwarnings("ignore:.*encountered in cast:RuntimeWarning")
def test_nearest_even_equals_ml_dtypes(fmt: Format) -> None:
    """On a quarter of a million patterns over all of float32, and on the hard values."""
    spread = (np.arange(0, 1 << 32, 16_411, dtype=np.uint64)).astype(np.uint32).view(np.float32)
    x = np.concatenate([spread, hard_values(fmt)])
    same(rounding_numpy.round_nearest_even(x, fmt), x.astype(ML_DTYPES[fmt]).astype(np.float32))


@settings(max_examples=150)
@given(x=floats, fmt=st.sampled_from(list(FORMATS.values())))
def test_nearest_even_equals_rational_arithmetic(x: np.ndarray, fmt: Format) -> None:
    expected = np.array([exact_nearest_even(float(v), fmt) for v in x], dtype=np.float32)
    same(rounding_numpy.round_nearest_even(x, fmt), expected)


@settings(max_examples=150)
@given(data=st.data(), x=floats, fmt=st.sampled_from(list(FORMATS.values())))
def test_numpy_and_torch_are_equal_bit_for_bit(data: st.DataObject, x: np.ndarray, fmt: Format) -> None:
    noise = data.draw(hnp.arrays(np.int64, x.shape, elements=st.integers(0, 2**32 - 1)))
    t = torch.from_numpy(x.copy())
    pairs = [
        (rounding_numpy.round_nearest_even(x, fmt), rounding.round_nearest_even(t, fmt)),
        (rounding_numpy.round_toward_zero(x, fmt), rounding.round_toward_zero(t, fmt)),
        (
            rounding_numpy.round_stochastic(x, fmt, noise),
            rounding.round_stochastic(t, fmt, torch.from_numpy(noise)),
        ),
    ]
    for in_numpy, in_torch in pairs:
        np.testing.assert_array_equal(bits(in_numpy), bits(in_torch.numpy()))


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=by_name)
def test_numpy_and_torch_are_equal_on_hard_values(fmt: Format) -> None:
    x = hard_values(fmt)
    t = torch.from_numpy(x)
    noise = np.random.default_rng(1).integers(0, 1 << 32, x.shape)
    for kind in ("round_nearest_even", "round_toward_zero"):
        np.testing.assert_array_equal(
            bits(getattr(rounding_numpy, kind)(x, fmt)), bits(getattr(rounding, kind)(t, fmt).numpy())
        )
    for words in (noise, np.zeros_like(noise), np.full_like(noise, 0xFFFF_FFFF)):
        np.testing.assert_array_equal(
            bits(rounding_numpy.round_stochastic(x, fmt, words)),
            bits(rounding.round_stochastic(t, fmt, torch.from_numpy(words)).numpy()),
        )


@pytest.mark.parametrize("fmt", NARROW, ids=by_name)
def test_stochastic_gives_the_exact_neighbours(fmt: Format) -> None:
    """Least noise truncates; most goes up, unless the value is representable or up is beyond the format."""
    x = hard_values(fmt)
    x = x[np.isfinite(x)]
    down = rounding_numpy.round_stochastic(x, fmt, np.zeros(x.shape, np.int64))
    up = rounding_numpy.round_stochastic(x, fmt, np.full(x.shape, 0xFFFF_FFFF))
    for value, low, high in zip(x, down, up, strict=True):
        lower, upper, fraction = exact_neighbours(float(value), fmt)
        if lower > Fraction(fmt.max_finite):
            overflow = math.inf if fmt.has_infinity else math.nan
            np.testing.assert_array_equal(np.abs([low, high]), [overflow, overflow])
            continue
        assert abs(Fraction(float(low))) == lower
        # a fraction below 2**-32 of a unit lies below the resolution of the random bits
        moves = fraction >= Fraction(1, 1 << 32) and upper <= Fraction(fmt.max_finite)
        assert abs(Fraction(float(high))) == (upper if moves else lower)
        assert math.copysign(1, low) == math.copysign(1, high) == math.copysign(1, value)


@pytest.mark.parametrize("fmt", [BF16, TF32], ids=by_name)
@pytest.mark.parametrize("value", [1.0 + 2.0**-20, -1.7, 3.3e38, 1.1e-40, 6.5e-39])
def test_stochastic_goes_up_in_exactly_the_discarded_fraction(fmt: Format, value: float) -> None:
    """Over every value that the noise can take, the mean of the roundings is the value itself, exactly."""
    every = np.arange(1 << fmt.discarded_bits)
    x = np.full(every.shape, value, np.float32)
    rounded = rounding_numpy.round_stochastic(x, fmt, every)
    lower, upper, fraction = exact_neighbours(float(x[0]), fmt)
    went_up = int((np.abs(rounded.astype(np.float64)) == float(upper)).sum())
    assert Fraction(went_up, len(every)) == fraction
    assert np.isin(np.abs(rounded.astype(np.float64)), [float(lower), float(upper)]).all()


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=by_name)
def test_every_rule_leaves_representable_numbers_alone(fmt: Format) -> None:
    values = np.array([float(n) for n in some_numbers(fmt)], np.float32)
    x = np.concatenate([values, -values])
    most = np.full(x.shape, 0xFFFF_FFFF)
    for again in (
        rounding_numpy.round_nearest_even(x, fmt),
        rounding_numpy.round_toward_zero(x, fmt),
        rounding_numpy.round_stochastic(x, fmt, most),
    ):
        np.testing.assert_array_equal(bits(again), bits(x))


@pytest.mark.parametrize("fmt", NARROW, ids=by_name)
def test_no_finite_value_becomes_infinite_toward_zero(fmt: Format) -> None:
    x = hard_values(fmt)
    result = rounding_numpy.round_toward_zero(x, fmt)
    finite = np.isfinite(x)
    assert np.isfinite(result[finite]).all()
    assert (np.abs(result[finite]) <= np.abs(x[finite])).all()


def test_nan_and_infinity_survive_every_rule() -> None:
    patterns = np.array([0x7F800001, 0xFFFFFFFF, 0x7F80FFFF, 0x7F800000, 0xFF800000], np.uint32)
    x = patterns.view(np.float32)
    for fmt in FORMATS.values():
        for noise in (0, 0xFFFF_FFFF):
            words = np.full(x.shape, noise)
            for result in (
                rounding_numpy.round_nearest_even(x, fmt),
                rounding_numpy.round_toward_zero(x, fmt),
                rounding_numpy.round_stochastic(x, fmt, words),
            ):
                assert np.isnan(result[:3]).all()
                if fmt.has_infinity:
                    np.testing.assert_array_equal(result[3:], [np.inf, -np.inf])
                else:
                    assert np.isnan(result[3:]).all()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (2, 3)])
def test_shapes_are_kept(shape: tuple[int, ...]) -> None:
    x = np.full(shape, 1.003, np.float32)
    t = torch.from_numpy(x)
    assert rounding_numpy.round_nearest_even(x, BF16).shape == shape
    assert rounding_numpy.round_stochastic(x, BF16, np.zeros(shape, np.int64)).shape == shape
    assert rounding.round_nearest_even(t, BF16).shape == shape
    assert rounding.Stochastic(1).to(t, torch.bfloat16, 0).shape == shape


def test_a_transposed_tensor_is_rounded_as_it_reads() -> None:
    t = torch.randn(5, 7, generator=torch.Generator().manual_seed(1)).t()
    x = t.numpy()
    np.testing.assert_array_equal(
        rounding.round_nearest_even(t, FP8_E4M3).numpy(),
        rounding_numpy.round_nearest_even(np.ascontiguousarray(x), FP8_E4M3),
    )
    np.testing.assert_array_equal(
        rounding_numpy.round_nearest_even(x, FP8_E4M3),
        rounding_numpy.round_nearest_even(np.ascontiguousarray(x), FP8_E4M3),
    )
    rule = rounding.Stochastic(1)
    assert torch.equal(rule.to(t, torch.bfloat16, 0), rule.to(t.contiguous(), torch.bfloat16, 0))


def test_anything_but_float32_is_refused() -> None:
    with pytest.raises(ValueError, match="takes float32"):
        rounding_numpy.round_nearest_even(np.zeros(1), BF16)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="takes float32"):
        rounding.round_nearest_even(torch.zeros(1, dtype=torch.float64), BF16)
