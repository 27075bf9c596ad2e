"""The rules that tracks are given: torch dtypes in, reproducible bits out."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from twintrack.numerics import BF16, FORMATS, FP8_E4M3, FP8_E4M3FN, FP16, TF32, random_words
from twintrack.numerics.rounding import (
    NearestEven,
    Rounding,
    Stochastic,
    TowardZero,
    format_of,
    round_nearest_even,
    round_stochastic,
    round_toward_zero,
    to_bf16,
)

DTYPES = [torch.bfloat16, torch.float16, torch.float8_e5m2, torch.float8_e4m3fn]
RULES: list[Rounding] = [NearestEven(), Stochastic(7), TowardZero()]


def sample(n: int = 5000) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(n, generator=generator) * torch.logspace(-12, 6, n)


def patterns(x: torch.Tensor) -> np.ndarray:
    return x.contiguous().view(torch.int16).numpy().view(np.uint16)


def every_bf16() -> torch.Tensor:
    """All 65,536 bf16 patterns as float32."""
    return torch.arange(1 << 16, dtype=torch.int32).bitwise_left_shift(16).view(torch.float32)


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_every_bf16_pattern_comes_back(rule: Rounding) -> None:
    x = every_bf16()
    number = ~torch.isnan(x).numpy()
    result = patterns(to_bf16(x, rule))
    np.testing.assert_array_equal(result[number], np.arange(1 << 16, dtype=np.uint16)[number])
    assert torch.isnan(to_bf16(x, rule))[torch.isnan(x)].all()


def test_nearest_even_bf16_equals_ml_dtypes_above_and_below_every_pattern() -> None:
    """Every bf16 pattern with the low halves that decide: the first, around the tie, the last."""
    for low in (0x0001, 0x7FFF, 0x8000, 0x8001, 0xFFFF):
        x = (every_bf16().view(torch.int32) + low).view(torch.float32)
        number = ~torch.isnan(x).numpy()
        expected = x.numpy()[number].astype(ml_dtypes.bfloat16).view(np.uint16)
        result = patterns(to_bf16(x, NearestEven()))[number]
        np.testing.assert_array_equal(result, expected)


def test_fast_stochastic_bf16_equals_its_definition() -> None:
    """With ordinary values only (fast path), and with NaN, infinity and the largest numbers among them."""
    special = [float("nan"), float("inf"), -float("inf"), 3.4e38, -3.4e38, 0.0, -0.0, 1e-42]
    for x in (sample(), every_bf16() * 1.001, *(torch.cat([sample(), torch.tensor([v])]) for v in special)):
        rule = Stochastic(11)
        expected = round_stochastic(x, BF16, rule.bits(x, 16, 5)).to(torch.bfloat16)
        result = rule.to(x, torch.bfloat16, 5)
        number = ~torch.isnan(expected)
        np.testing.assert_array_equal(patterns(result)[number], patterns(expected)[number])
        assert torch.isnan(result)[~number].all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_rules_are_the_functions_on_the_dtypes_format(dtype: torch.dtype) -> None:
    x, fmt, rule = sample(), format_of(dtype), Stochastic(3)
    pairs = [
        (NearestEven().to(x, dtype, 0), round_nearest_even(x, fmt)),
        (TowardZero().to(x, dtype, 0), round_toward_zero(x, fmt)),
        (
            rule.to(x, dtype, 9),
            round_stochastic(x, fmt, rule.bits(x, 16 if dtype is torch.bfloat16 else 32, 9)),
        ),
    ]
    for result, expected in pairs:
        assert result.dtype is dtype
        torch.testing.assert_close(result.to(torch.float32), expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_float32_is_given_back_as_it_is(rule: Rounding) -> None:
    x = sample(3)
    assert rule.to(x, torch.float32, 0) is x


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_what_is_not_float32_or_has_no_format_is_refused(rule: Rounding) -> None:
    with pytest.raises(ValueError, match="takes float32"):
        rule.to(torch.zeros(1, dtype=torch.bfloat16), torch.bfloat16, 0)
    with pytest.raises(ValueError, match="no format"):
        rule.to(torch.zeros(1), torch.int32, 0)


def test_the_rules_disagree_where_they_should() -> None:
    """So that a test with a wrong rule can fail: each pair differs on ordinary values."""
    x = sample()
    results = [patterns(to_bf16(x, rule, 0)) for rule in RULES]
    assert (results[0] != results[1]).mean() > 0.2
    assert (results[0] != results[2]).mean() > 0.4
    assert len({rule.name for rule in RULES}) == 3


def test_stochastic_bits_depend_on_seed_and_counter_only() -> None:
    x = sample()
    first = patterns(Stochastic(1).to(x, torch.bfloat16, 4))
    torch.manual_seed(99)
    np.random.seed(99)
    torch.rand(7)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        np.testing.assert_array_equal(patterns(Stochastic(1).to(x, torch.bfloat16, 4)), first)
    finally:
        torch.set_num_threads(threads)
    assert (patterns(Stochastic(1).to(x, torch.bfloat16, 5)) != first).any()
    assert (patterns(Stochastic(2).to(x, torch.bfloat16, 4)) != first).any()


def test_stochastic_leaves_its_input_and_global_generators_alone() -> None:
    x = sample()
    copy, state = x.clone(), torch.random.get_rng_state()
    Stochastic(1).to(x, torch.bfloat16, 0)
    assert torch.equal(x, copy)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_random_words_are_pinned() -> None:
    """A change of these figures changes every stochastic run: it must be deliberate, and named in the log."""
    assert random_words(1, 2, 5, bits=16).tolist() == [27401, 46419, 17171, 20271, 62250]
    assert random_words(1, 2, 3, bits=32).tolist() == [3042142985, 1328497427, 564130602]


def _philox_4x64(key: tuple[int, int], counter: tuple[int, int, int, int]) -> list[int]:
    """Philox 4x64-10 as its paper states it, in Python integers."""
    k0, k1 = key
    c = list(counter)
    for _ in range(10):
        p0, p1 = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
        mask = (1 << 64) - 1
        c = [(p1 >> 64) ^ c[1] ^ k0, p1 & mask, (p0 >> 64) ^ c[3] ^ k1, p0 & mask]
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & mask, (k1 + 0xBB67AE8584CAA73B) & mask
    return c


@given(seed=st.integers(0, 2**64 - 1), counter=st.integers(0, 2**64 - 1), count=st.integers(0, 40))
def test_random_words_are_philox(seed: int, counter: int, count: int) -> None:
    """The first block uses counter 1 (NumPy steps before it draws), the key is (seed, counter)."""
    blocks = [_philox_4x64((seed, counter), (i, 0, 0, 0)) for i in range(1, 12)]
    words = [word >> shift & 0xFFFF for block in blocks for word in block for shift in (0, 16, 32, 48)]
    assert random_words(seed, counter, count, bits=16).tolist() == words[:count]


def test_random_words_are_uniform_and_streams_unlike() -> None:
    words = np.stack([random_words(0, c, 1 << 14, bits=16) for c in range(16)])
    counts = np.bincount((words >> 8).ravel(), minlength=256)
    expected = words.size / 256
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert 150 < chi_square < 400  # 255 degrees of freedom: far beyond 4 standard deviations otherwise
    centred = words.astype(np.float64) - words.mean()
    correlation = np.corrcoef(centred)
    assert np.abs(correlation - np.eye(16)).max() < 0.05


@pytest.mark.parametrize(("seed", "counter", "bits"), [(-1, 0, 16), (0, 1 << 64, 16), (0, 0, 8)])
def test_bad_seeds_counters_and_widths_are_refused(seed: int, counter: int, bits: int) -> None:
    with pytest.raises(ValueError, match="must"):
        random_words(seed, counter, 1, bits=bits)


def test_formats_have_their_published_limits() -> None:
    limits = {name: (fmt.max_finite, fmt.min_normal, fmt.min_subnormal) for name, fmt in FORMATS.items()}
    for fmt, kind in ((BF16, ml_dtypes.bfloat16), (FP16, np.float16), (FP8_E4M3FN, ml_dtypes.float8_e4m3fn)):
        info = ml_dtypes.finfo(kind)
        expected = (info.max, info.smallest_normal, info.smallest_subnormal)
        assert limits[fmt.name] == tuple(float(v) for v in expected)
        assert fmt.epsilon == float(info.eps)
    assert limits["fp32"] == (float(np.finfo(np.float32).max), 2.0**-126, 2.0**-149)
    assert FP8_E4M3.max_finite == 240
    assert FP8_E4M3FN.max_finite == 448
    assert limits["fp8_e5m2"][0] == 57344
    assert limits["fp8_e3m4"][0] == 15.5
    assert TF32.max_finite == (2 - 2.0**-10) * 2.0**127
