"""Rounding float32 tensors to a narrower format, in torch; equal to ``rounding_numpy`` bit for bit.

``round_*`` take any ``Format`` and give float32 tensors of numbers that it can hold. The ``Rounding``
classes are what a track is given: they turn a float32 tensor into a torch dtype and are fast for bf16. Rules
that the formats leave open are stated in ``docs/numerics.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch

from twintrack.numerics.formats import (
    BF16,
    FP8_E4M3FN,
    FP8_E5M2,
    FP16,
    FP32,
    FP32_MANTISSA_BITS,
    Format,
)
from twintrack.numerics.random_bits import random_words

__all__ = [
    "NearestEven",
    "Rounding",
    "Stochastic",
    "TowardZero",
    "format_of",
    "round_nearest_even",
    "round_stochastic",
    "round_toward_zero",
    "to_bf16",
]

_MAX_SHIFT = 32
_BF16_MAX = BF16.max_finite


@runtime_checkable
class Rounding(Protocol):
    """A rule that turns float32 results into the type that they are stored in."""

    @property
    def name(self) -> str:
        """What a cache key and a report call the rule; rules that may give different bits differ in it."""
        ...

    def to(self, x: torch.Tensor, dtype: torch.dtype, counter: int) -> torch.Tensor:
        """``x`` rounded to ``dtype``.

        Args:
            x: float32 of any shape.
            dtype: float32 gives ``x`` itself; else a type that ``format_of`` knows.
            counter: which rounding of the run this is, in ``[0, 2**64)``; a random rule gives the same bits
                for the same counter, others take no notice.

        Raises:
            ValueError: if ``x`` is not float32, or ``dtype`` has no format here.
        """
        ...


@dataclass(frozen=True, slots=True)
class NearestEven:
    """To the nearest number, ties to the even one; the default of the device."""

    @property
    def name(self) -> str:
        """``nearest-even``."""
        return "nearest-even"

    def to(self, x: torch.Tensor, dtype: torch.dtype, counter: int) -> torch.Tensor:
        """See ``Rounding.to``."""
        del counter  # nothing here is random
        _require_float32(x)
        if dtype in (torch.float32, torch.bfloat16, torch.float16):
            return x.to(dtype)
        return round_nearest_even(x, format_of(dtype)).to(dtype)


@dataclass(frozen=True, slots=True)
class Stochastic:
    """Up with the probability of the discarded fraction: the mean of many roundings is the value itself.

    The bits of rounding number ``counter`` are the Philox stream ``(seed, counter)`` in row-major order.
    """

    seed: int

    @property
    def name(self) -> str:
        """``stochastic(seed=...)``."""
        return f"stochastic(seed={self.seed})"

    def to(self, x: torch.Tensor, dtype: torch.dtype, counter: int) -> torch.Tensor:
        """See ``Rounding.to``."""
        _require_float32(x)
        if dtype is torch.float32:
            return x
        bits = self.bits(x, 16 if dtype is torch.bfloat16 else 32, counter)
        if dtype is torch.bfloat16:
            return _bf16_stochastic(x, bits)
        return round_stochastic(x, format_of(dtype), bits).to(dtype)

    def bits(self, x: torch.Tensor, bits: int, counter: int) -> torch.Tensor:
        """The random words for ``x``: int32 below ``2**16`` for 16 bits, int64 below ``2**32`` for 32."""
        words = torch.from_numpy(random_words(self.seed, counter, x.numel(), bits=bits))
        return words.to(torch.int32 if bits == 16 else torch.int64).view(x.shape).to(x.device)


@dataclass(frozen=True, slots=True)
class TowardZero:
    """Truncation. No Trainium rounds so: it is the deliberately wrong rule that tests must tell apart."""

    @property
    def name(self) -> str:
        """``toward-zero``."""
        return "toward-zero"

    def to(self, x: torch.Tensor, dtype: torch.dtype, counter: int) -> torch.Tensor:
        """See ``Rounding.to``."""
        del counter  # nothing here is random
        _require_float32(x)
        if dtype is torch.float32:
            return x
        return round_toward_zero(x, format_of(dtype)).to(dtype)


def to_bf16(x: torch.Tensor, rounding: Rounding, counter: int = 0) -> torch.Tensor:
    """``x`` (float32, any shape) rounded to a bfloat16 tensor."""
    return rounding.to(x, torch.bfloat16, counter)


def format_of(dtype: torch.dtype) -> Format:
    """The format of a torch dtype.

    Raises:
        ValueError: if it is not a floating-point type that a NeuronCore stores.
    """
    if dtype is torch.bfloat16:
        return BF16
    if dtype is torch.float16:
        return FP16
    if dtype is torch.float32:
        return FP32
    if dtype is torch.float8_e5m2:
        return FP8_E5M2
    if dtype is torch.float8_e4m3fn:
        return FP8_E4M3FN
    raise ValueError(f"{dtype} has no format here")


def round_nearest_even(x: torch.Tensor, fmt: Format) -> torch.Tensor:
    """The nearest number of ``fmt``; of two equally near, the one with an even significand.

    Beyond the largest finite number plus half a unit the result is infinite, or NaN where ``fmt`` has no
    infinity.

    Args:
        x: float32 of any shape.

    Returns:
        float32 of the same shape. NaN gives the quiet NaN ``0x7fc00000``; zeros keep their sign.
    """
    significand, shift, unit = _split(x, fmt)
    kept = significand >> shift
    rest = significand - (kept << shift)
    one = torch.ones_like(shift)
    half = torch.where(shift > 0, one << (shift - 1).clamp_(min=0), one)
    up = (rest > half) | ((rest == half) & ((kept & 1) == 1))
    return _join(x, kept + up, unit, fmt, held=None)


def round_stochastic(x: torch.Tensor, fmt: Format, random_bits: torch.Tensor) -> torch.Tensor:
    """A neighbour in ``fmt``: the upper (in magnitude) with the probability of the discarded fraction.

    Random bits are added below the kept significand and the sum is truncated, so representable values never
    change.
    Chance never makes a finite value infinite: what truncates to the largest finite number stays there.

    Args:
        x: float32 of any shape.
        random_bits: int32 or int64 of the same shape, uniform over at least as many low bits as are
            discarded: ``fmt.discarded_bits`` for normal results, up to 32 for subnormal ones. Higher bits
            are ignored.

    Returns:
        float32 of the same shape; NaN and zeros as in ``round_nearest_even``.
    """
    significand, shift, unit = _split(x, fmt)
    noise = random_bits.to(torch.int64) & ((torch.ones_like(shift) << shift) - 1)
    kept = (significand + noise) >> shift
    held = _scale(significand >> shift, unit) <= fmt.max_finite
    return _join(x, kept, unit, fmt, held=held)


def round_toward_zero(x: torch.Tensor, fmt: Format) -> torch.Tensor:
    """The neighbour in ``fmt`` that is nearer to zero; finite values never become infinite.

    Args:
        x: float32 of any shape.

    Returns:
        float32 of the same shape; NaN and zeros as in ``round_nearest_even``.
    """
    significand, shift, unit = _split(x, fmt)
    return _join(x, significand >> shift, unit, fmt, held=torch.isfinite(x))


def _require_float32(x: torch.Tensor) -> None:
    if x.dtype is not torch.float32:
        raise ValueError(f"rounding takes float32, got {x.dtype}")


def _split(x: torch.Tensor, fmt: Format) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """``|x| = significand * 2**(unit - shift)``; ``2**unit`` is one unit of ``fmt`` at ``x``."""
    _require_float32(x)
    bits = x.view(torch.int32).to(torch.int64) & 0x7FFF_FFFF
    field = bits >> FP32_MANTISSA_BITS
    significand = (bits & 0x7F_FFFF) | ((field > 0).to(torch.int64) << FP32_MANTISSA_BITS)
    exponent = field.clamp(min=1) - 127
    unit = exponent.clamp(min=fmt.min_exponent) - fmt.mantissa_bits
    shift = unit - (exponent - FP32_MANTISSA_BITS)
    # more than 32 discarded bits: the value is far below half a unit, and its fraction below 2**-8
    excess = (shift - _MAX_SHIFT).clamp_(min=0)
    return significand >> excess.clamp(max=_MAX_SHIFT), shift - excess, unit


def _scale(kept: torch.Tensor, unit: torch.Tensor) -> torch.Tensor:
    """``kept * 2**unit`` in float64, exactly."""
    return kept.to(torch.float64) * ((unit + 1023) << 52).view(torch.float64)


def _join(
    x: torch.Tensor, kept: torch.Tensor, unit: torch.Tensor, fmt: Format, *, held: torch.Tensor | None
) -> torch.Tensor:
    """Back to float32, with overflow, special values and the sign of ``x``.

    ``held`` marks the elements that stay at the largest finite number where they would pass it.
    """
    magnitude = _scale(kept, unit)
    over = magnitude > fmt.max_finite
    if held is not None:
        magnitude = torch.where(over & held, fmt.max_finite, magnitude)
        over = over & ~held
    beyond = torch.inf if fmt.has_infinity else torch.nan
    magnitude = magnitude.masked_fill(over | torch.isinf(x), beyond)
    signed = torch.copysign(magnitude.to(torch.float32), x)
    return signed.masked_fill_(torch.isnan(x) | torch.isnan(signed), torch.nan)


def _bf16_stochastic(x: torch.Tensor, bits: torch.Tensor) -> torch.Tensor:
    """``round_stochastic(x, BF16, bits)`` as bfloat16: float32's upper half, so one integer addition does it.

    ``bits`` is int32 below ``2**16`` and is used as working memory.
    """
    if x.numel() == 0:
        return x.to(torch.bfloat16)
    low, high = torch.aminmax(x)  # NaN if there is one, so that the comparison below fails
    if not bool((low > -_BF16_MAX) & (high < _BF16_MAX)):
        return round_stochastic(x, BF16, bits).to(torch.bfloat16)
    kept = bits.add_(x.contiguous().view(torch.int32)).bitwise_and_(-0x1_0000)
    return kept.view(torch.float32).to(torch.bfloat16)
