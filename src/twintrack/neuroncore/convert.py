"""Between elements as they are stored and float32, in which the engines compute: reads, writes and casts.

The rules of a write, from the AWS Neuron documentation where it has them (release notes of NKI 0.6.0 for
float to integer; ``nki.isa.range_select`` for what overflows a narrow float) and else our choice:

- float32 to a narrower float: once, to nearest with ties to even, or stochastically. Beyond the largest number:
  infinity, or NaN where the type has no infinity. Subnormals are kept, a NaN is a quiet NaN of the same sign.
- float to integer: to nearest, ties to even, saturating; NaN gives 0.
- integer to integer: saturating. Integer to float: through float32.

``docs/neuroncore-values.md`` says which is which.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from twintrack.neuroncore.memory.dtypes import DType
from twintrack.numerics.formats import Format
from twintrack.numerics.rounding_numpy import round_stochastic

__all__ = ["cast", "round_to", "store", "to_float32"]

Array = npt.NDArray[Any]
Float32 = npt.NDArray[np.float32]

_FLOAT32 = np.dtype(np.float32)
_UINT8 = np.dtype(np.uint8)
_UINT16 = np.dtype(np.uint16)
_UINT32 = np.dtype(np.uint32)
_HALF = np.uint32(16)
_LOW = np.uint32(0xFFFF)
_MAGNITUDE = np.uint32(0x7FFF_FFFF)
_INFINITY = np.uint32(0x7F80_0000)
_MAX_BF16 = np.uint32(0x7F7F_0000)
_TF32_ODD = np.uint32(13)
_TF32_BIAS = np.uint32(0x0FFF)
_TF32_KEPT = np.uint32(0xFFFF_E000)
_BYTE_TYPES: Mapping[str, Any] = MappingProxyType(
    {
        "float8_e4m3": ml_dtypes.float8_e4m3,
        "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
        "float8_e5m2": ml_dtypes.float8_e5m2,
        "float8_e8m0fnu": ml_dtypes.float8_e8m0fnu,
    }
)


def to_float32(stored: Array, dtype: DType) -> Float32:
    """Elements as the engines compute with them: what a read does.

    Exact for every float and for integers below ``2**24``; wider ones are rounded to nearest even.

    Args:
        stored: any shape and strides; ``dtype.stored``, or float32 for a float that is held unrounded.
        dtype: what the elements are.

    Returns:
        float32 of the same shape; ``stored`` itself where it is float32 already.

    Raises:
        TypeError: for packed types, whose words are not numbers.
    """
    if stored.dtype == _FLOAT32:
        return stored
    if dtype == "bfloat16":
        wide = stored.view(_UINT16).astype(_UINT32)
        wide <<= _HALF
        return wide.view(_FLOAT32)
    if dtype in _BYTE_TYPES:
        return _table(dtype).take(stored.view(_UINT8))
    if dtype.kind == "packed":
        raise TypeError(f"a word of {dtype} is four elements, not one number")
    return stored.astype(_FLOAT32)


def round_to(values: Array, dtype: DType, *, random_bits: Array | None = None, precise: bool = True) -> Array:
    """Results of an instruction as elements of a type: what a write does, as the module describes.

    Args:
        values: float (computed with as float32) or integer, any shape; integers are exact results.
        dtype: of what is written to.
        random_bits: integers of the same shape, uniform over 32 bits: round stochastically to a narrower float
            (finite results stay finite). Without them, to nearest even. Integers never round by chance.
        precise: whether floats are rounded; if not, they are held as float32 (``NKI_PRECISE_FP=0``).

    Returns:
        ``dtype.stored`` of the same shape, or float32 for a float that is held unrounded; ``values`` itself
        where nothing changes.

    Raises:
        TypeError: for packed types, unless ``values`` are words already.
    """
    if dtype.kind == "float":
        single = values if values.dtype == _FLOAT32 else values.astype(_FLOAT32)
        if dtype.number_format is None or not precise:
            return single
        if random_bits is not None:
            return _stochastic(single, dtype, dtype.number_format, random_bits)
        return _nearest(single, dtype)
    if dtype.kind == "bool":
        return np.not_equal(values, 0).view(_UINT8)
    if values.dtype == dtype.stored:
        return values
    if dtype.kind == "packed":
        raise TypeError(f"numbers are not rounded to {dtype}: its words are packed by quantisation")
    if dtype.kind == "scale" and values.dtype.kind == "f":
        with np.errstate(all="ignore"):
            return values.astype(_BYTE_TYPES[dtype]).view(_UINT8)
    return _to_integer(values, dtype.stored)


def store(
    values: Array,
    out: Array,
    dtype: DType,
    *,
    random_bits: Array | None = None,
    precise: bool = True,
) -> None:
    """``out[...] = round_to(values, dtype)``, in one pass where that is possible.

    Args:
        values: broadcastable to ``out``.
        out: where the elements lie, any strides.
    """
    if dtype == "bfloat16" and random_bits is None and out.dtype == dtype.stored and values.dtype == _FLOAT32:
        with np.errstate(invalid="ignore", over="ignore"):
            out[...] = values
        return
    out[...] = round_to(values, dtype, random_bits=random_bits, precise=precise)


def cast(
    stored: Array,
    source: DType,
    target: DType,
    *,
    random_bits: Array | None = None,
    precise: bool = True,
) -> Array:
    """Elements of one type as another: what a DMA or an engine does when it copies between types.

    The same type: bits untouched, the same array. Else through float32, as documented for ``nki.isa.dma_copy``
    and ``nki.isa.tensor_copy``, so that a 32-bit integer keeps 24 significant bits on its way to another type.

    Raises:
        TypeError: between a packed type and another.
    """
    if source == target:
        return stored
    return round_to(to_float32(stored, source), target, random_bits=random_bits, precise=precise)


@cache
def _table(name: str) -> Float32:
    """The 256 numbers of an 8-bit type; the cache holds what the name alone determines."""
    table: Float32 = np.arange(256, dtype=np.uint8).view(_BYTE_TYPES[name]).astype(np.float32)
    table.setflags(write=False)
    return table


@cache
def _nearest_table(name: str) -> npt.NDArray[np.uint8]:
    """For the upper 16 bits of a float32, the lowest of them set if any bit below was: the nearest 8-bit float.

    Sixteen bits rounded to odd keep 8 significant bits, and rounding to odd with two bits more than the target
    has before rounding to nearest gives what one rounding gives (Boldo and Melquiond, "Emulation of FMA and
    correctly rounded sums: proved algorithms using rounding to odd", IEEE Trans. Computers 57, 2008).
    """
    upper = np.arange(1 << 16, dtype=np.uint32) << _HALF
    with np.errstate(all="ignore"):
        table = upper.view(np.float32).astype(_BYTE_TYPES[name]).view(np.uint8)
    table.setflags(write=False)
    return table


def _nearest(values: Float32, dtype: DType) -> Array:
    if dtype in _BYTE_TYPES:
        bits = values.view(_UINT32)
        odd = ((bits & _LOW) != 0).view(_UINT8)
        upper = bits >> _HALF
        upper |= odd
        return _nearest_table(dtype).take(upper).view(dtype.stored)
    if dtype == "tfloat32":
        return _nearest_tf32(values)
    with np.errstate(invalid="ignore", over="ignore"):
        return values.astype(dtype.stored)


def _nearest_tf32(values: Float32) -> Float32:
    """Round by adding half a unit less the parity of the kept part to the bits; NaN is put back."""
    bits = values.view(_UINT32)
    rounded = bits >> _TF32_ODD
    rounded &= np.uint32(1)
    rounded += _TF32_BIAS
    rounded += np.minimum(bits & _MAGNITUDE, _INFINITY)  # so that a NaN does not carry into the sign
    rounded &= _TF32_KEPT
    result = np.copysign(rounded.view(_FLOAT32), values)
    _keep_nan(values, result)
    return result


def _stochastic(values: Float32, dtype: DType, fmt: Format, random_bits: Array) -> Array:
    if dtype != "bfloat16":
        rounded = round_stochastic(values, fmt, random_bits)
        with np.errstate(invalid="ignore"):
            return rounded.astype(dtype.stored)
    bits = values.view(_UINT32)
    magnitude = bits & _MAGNITUDE
    upper = magnitude + (random_bits.astype(_UINT32) & _LOW)
    # chance never makes a finite value infinite
    np.minimum(upper, _MAX_BF16, out=upper, where=magnitude < _INFINITY)
    upper |= bits & ~_MAGNITUDE
    upper >>= _HALF
    result = upper.astype(_UINT16).view(dtype.stored)
    _keep_nan(values, result)
    return result


def _keep_nan(values: Float32, result: Array) -> None:
    """A quiet NaN with the sign of the value wherever the value is NaN; ``result`` is changed."""
    nan = np.isnan(values)
    if nan.any():
        result[nan] = np.copysign(np.float32(np.nan), values[nan])


def _to_integer(values: Array, kind: np.dtype[Any]) -> Array:
    limits = np.iinfo(kind)
    if values.dtype.kind == "f":
        # float32 holds the limits of 8 and 16 bits, float64 those of 32
        whole = np.rint(values, dtype=np.float32 if kind.itemsize < 4 else np.float64)
        np.clip(whole, limits.min, limits.max, out=whole)
        nan = np.isnan(whole)
        if nan.any():
            whole[nan] = 0.0
        return whole.astype(kind)
    if values.dtype.kind == "b":
        return values.astype(kind)
    return np.clip(values.astype(np.int64), limits.min, limits.max).astype(kind)
