"""Rounding float32 arrays to a narrower format, in NumPy: the twin of ``rounding``, equal to it bit for bit.

A float32 magnitude is split into an integer significand and an exponent; the bits below the format's spacing
are cut off and decide whether one unit is added. Results are float32 values that the format can hold. Rules
that the formats leave open are stated in ``docs/numerics.md``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from twintrack.numerics.formats import FP32_MANTISSA_BITS, Format

__all__ = ["round_nearest_even", "round_stochastic", "round_toward_zero"]

_Float32 = npt.NDArray[np.float32]
_Int64 = npt.NDArray[np.int64]
_Bool = npt.NDArray[np.bool_]
_MAX_SHIFT = 32


def round_nearest_even(x: _Float32, fmt: Format) -> _Float32:
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
    half = np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 1)
    up = (rest > half) | ((rest == half) & ((kept & 1) == 1))
    return _join(x, kept + up, unit, fmt, held=None)


def round_stochastic(x: _Float32, fmt: Format, random_bits: npt.NDArray[np.integer[Any]]) -> _Float32:
    """A neighbour in ``fmt``: the upper (in magnitude) with the probability of the discarded fraction.

    Random bits are added below the kept significand and the sum is truncated, so representable values never
    change.
    Chance never makes a finite value infinite: what truncates to the largest finite number stays there.

    Args:
        x: float32 of any shape.
        random_bits: integers of the same shape, uniform over at least as many low bits as are discarded:
            ``fmt.discarded_bits`` for normal results, up to 32 for subnormal ones. Higher bits are ignored.

    Returns:
        float32 of the same shape; NaN and zeros as in ``round_nearest_even``.
    """
    significand, shift, unit = _split(x, fmt)
    noise = random_bits.astype(np.int64) & ((np.int64(1) << shift) - 1)
    kept = (significand + noise) >> shift
    held = _scale(significand >> shift, unit) <= fmt.max_finite
    return _join(x, kept, unit, fmt, held=held)


def round_toward_zero(x: _Float32, fmt: Format) -> _Float32:
    """The neighbour in ``fmt`` that is nearer to zero; finite values never become infinite.

    Args:
        x: float32 of any shape.

    Returns:
        float32 of the same shape; NaN and zeros as in ``round_nearest_even``.
    """
    significand, shift, unit = _split(x, fmt)
    return _join(x, significand >> shift, unit, fmt, held=np.isfinite(x))


def _split(x: _Float32, fmt: Format) -> tuple[_Int64, _Int64, _Int64]:
    """``|x| = significand * 2**(unit - shift)``; ``2**unit`` is one unit of ``fmt`` at ``x``."""
    if x.dtype != np.float32:
        raise ValueError(f"rounding takes float32, got {x.dtype}")
    bits = np.ascontiguousarray(x).view(np.int32).reshape(x.shape).astype(np.int64) & 0x7FFF_FFFF
    field = bits >> FP32_MANTISSA_BITS
    significand = (bits & 0x7F_FFFF) | (np.where(field > 0, np.int64(1), 0) << FP32_MANTISSA_BITS)
    exponent = np.maximum(field, 1) - 127
    unit = np.maximum(exponent, fmt.min_exponent) - fmt.mantissa_bits
    shift = unit - (exponent - FP32_MANTISSA_BITS)
    # more than 32 discarded bits: the value is far below half a unit, and its fraction below 2**-8
    excess = np.maximum(shift - _MAX_SHIFT, 0)
    return significand >> np.minimum(excess, _MAX_SHIFT), shift - excess, unit


def _scale(kept: _Int64, unit: _Int64) -> npt.NDArray[np.float64]:
    """``kept * 2**unit``, exactly."""
    return np.ldexp(kept.astype(np.float64), unit.astype(np.int32))


def _join(x: _Float32, kept: _Int64, unit: _Int64, fmt: Format, *, held: _Bool | None) -> _Float32:
    """Back to float32, with overflow, special values and the sign of ``x``.

    ``held`` marks the elements that stay at the largest finite number where they would pass it.
    """
    magnitude = _scale(kept, unit)
    over = magnitude > fmt.max_finite
    if held is not None:
        magnitude = np.where(over & held, fmt.max_finite, magnitude)
        over = over & ~held
    beyond = np.inf if fmt.has_infinity else np.nan
    magnitude = np.where(over | np.isinf(x), beyond, magnitude)
    # signs are put on in float32: casting a signalling NaN would raise a floating-point exception
    signed = np.copysign(magnitude.astype(np.float32), x)
    return np.where(np.isnan(x) | np.isnan(signed), np.float32(np.nan), signed)
