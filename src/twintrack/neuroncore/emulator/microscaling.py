"""MX formats: four narrow elements in a word, and one power of two for each group of 32 elements.

Groups span 8 partitions by 4 neighbours on the free axis (``nki.isa.quantize_mx``); element types and the scale type
``float8_e8m0fnu`` are those of the OCP Microscaling Formats specification 1.0. The scale of a group is documented:
``2**(floor(log2(largest magnitude)) - (E - 1))`` with ``E`` the largest exponent of the element type, ``2**-127`` for
a group of zeros; it is twice that of the specification's sample algorithm, so that rounding up does not saturate.

Our choices: the first of four neighbours has the lowest bits of a word; scales end at ``2**-127`` and ``2**127``; a
group with an infinity or NaN has the scale of exponent 128.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from twintrack.neuroncore.convert import round_to, to_float32
from twintrack.neuroncore.memory.dtypes import DTYPES, DType

__all__ = ["GROUP_PARTITIONS", "PACKED", "dequantize", "pack", "quantize", "scale_partitions", "unpack"]

Float32 = npt.NDArray[np.float32]
Words = npt.NDArray[Any]
Scales = npt.NDArray[np.uint8]

GROUP_PARTITIONS = 8
"""Partitions of a group; with four elements in each it has 32."""
PACKED = 4
"""Elements in a word."""

_BIAS = 127
_QUADRANT = 32
_NIBBLES = np.arange(PACKED, dtype=np.uint16) * np.uint16(4)


@dataclass(frozen=True, slots=True)
class _Elements:
    """What a packed type holds."""

    stored: np.dtype[Any]
    max_exponent: int
    dtype: DType | None
    """Of an element that is a type of its own."""


_ELEMENTS: Mapping[str, _Elements] = MappingProxyType(
    {
        "float8_e4m3fn_x4": _Elements(np.dtype(ml_dtypes.float8_e4m3fn), 8, DTYPES["float8_e4m3fn"]),
        "float8_e5m2_x4": _Elements(np.dtype(ml_dtypes.float8_e5m2), 15, DTYPES["float8_e5m2"]),
        "float4_e2m1fn_x4": _Elements(np.dtype(ml_dtypes.float4_e2m1fn), 2, None),
    }
)


def pack(elements: npt.NDArray[Any], dtype: DType) -> Words:
    """Neighbouring elements as words.

    Args:
        elements: of the element type (ml_dtypes), shape ``(..., 4 n)``.
        dtype: a packed type.

    Returns:
        ``dtype.stored``, shape ``(..., n)``.

    Raises:
        KeyError: if the type is not packed.
    """
    found = _ELEMENTS[dtype]
    patterns = np.ascontiguousarray(elements).view(np.uint8)
    fours = patterns.reshape(*patterns.shape[:-1], -1, PACKED)
    if found.dtype is None:
        words: Words = np.bitwise_or.reduce((fours & np.uint8(0xF)).astype(np.uint16) << _NIBBLES, axis=-1)
        return words
    return fours.view("<u4")[..., 0].astype(dtype.stored)


def unpack(words: Words, dtype: DType) -> Float32:
    """The numbers in words, unscaled.

    Args:
        words: ``dtype.stored``, shape ``(..., n)``.
        dtype: a packed type.

    Returns:
        float32, shape ``(..., 4 n)``.

    Raises:
        KeyError: if the type is not packed.
    """
    found = _ELEMENTS[dtype]
    if found.dtype is None:
        nibbles = ((words[..., None] >> _NIBBLES) & np.uint16(0xF)).astype(np.uint8)
        numbers: Float32 = nibbles.view(found.stored).astype(np.float32)
    else:
        patterns = np.ascontiguousarray(words).astype("<u4", copy=False)[..., None].view(np.uint8)
        numbers = to_float32(patterns.view(found.stored), found.dtype)
    return numbers.reshape(*words.shape[:-1], -1)


def quantize(values: Float32, dtype: DType) -> tuple[Words, Scales]:
    """Groups of 8 partitions by 4 elements as narrow elements and one scale each.

    Args:
        values: float32 of shape ``(p, f)``; ``p`` a multiple of 8, ``f`` of 4.
        dtype: a packed type of 8-bit floats.

    Returns:
        Words of shape ``(p, f / 4)``, and scales as bytes (exponent plus 127), shape ``(p / 8, f / 4)``.

    Raises:
        KeyError: if the type is not packed 8-bit floats.
        ValueError: if the shape is not one of whole groups.
    """
    found = _ELEMENTS[dtype]
    if found.dtype is None:
        raise KeyError(dtype)
    partitions, free = values.shape
    if partitions % GROUP_PARTITIONS or free % PACKED:
        raise ValueError(f"groups are 8 partitions by 4 elements, got {partitions} by {free}")
    groups = values.reshape(-1, GROUP_PARTITIONS, free // PACKED, PACKED)
    exponents = _exponents(np.abs(groups).max(axis=(1, 3))) - (found.max_exponent - 1)
    exponents = np.clip(exponents, -_BIAS, _BIAS)
    with np.errstate(all="ignore"):
        scaled = np.ldexp(groups.astype(np.float64), -exponents[:, None, :, None]).astype(np.float32)
    words = pack(round_to(scaled.reshape(partitions, free), found.dtype), dtype)
    return words, (exponents + _BIAS).astype(np.uint8)


def dequantize(words: Words, scales: Scales, dtype: DType) -> Float32:
    """The numbers that words and their scales mean; exact but for results beyond float32.

    Args:
        words: ``dtype.stored``, shape ``(p, n)``.
        scales: shape ``(p / 8, n)``; 255 is NaN.
        dtype: a packed type.

    Returns:
        float32, shape ``(p, 4 n)``.

    Raises:
        KeyError: if the type is not packed.
        ValueError: if there is not one scale for each group.
    """
    if (
        scales.shape != (words.shape[0] // GROUP_PARTITIONS, words.shape[1])
        or words.shape[0] % GROUP_PARTITIONS
    ):
        raise ValueError(f"words of shape {words.shape} have one scale for 8 partitions, got {scales.shape}")
    numbers = unpack(words, dtype).reshape(-1, GROUP_PARTITIONS, words.shape[1], PACKED)
    factors = to_float32(scales, DTYPES["float8_e8m0fnu"])[:, None, :, None]
    with np.errstate(all="ignore"):
        return (numbers * factors).reshape(words.shape[0], -1)


def scale_partitions(partitions: int) -> npt.NDArray[np.int64]:
    """In which partitions of a scale tile the scales of the groups lie, in order of the groups.

    A scale lies in the quadrant of its group: the first four partitions of each 32 (the deep dive "MXFP matmul").

    Args:
        partitions: of the data; a multiple of 32, or 8, 16 or 24.
    """
    group = np.arange(partitions // GROUP_PARTITIONS, dtype=np.int64)
    per_quadrant = _QUADRANT // GROUP_PARTITIONS
    return group // per_quadrant * _QUADRANT + group % per_quadrant


def _exponents(magnitudes: Float32) -> npt.NDArray[np.int64]:
    """``floor(log2(m))``; 128 for infinity and NaN, and far below every scale for zero."""
    _, exponent = np.frexp(magnitudes)
    result = exponent.astype(np.int64) - 1
    result[~np.isfinite(magnitudes)] = 128
    result[magnitudes == 0] = -1000
    return result
