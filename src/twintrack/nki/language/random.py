"""``nki.language``: random tiles, from the generator of the Vector Engine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.dtypes import DTYPES, DType
from twintrack.neuroncore.memory.generation import PARTITIONS
from twintrack.nki import isa
from twintrack.nki.isa.issue import author_error
from twintrack.nki.language import creation
from twintrack.nki.language.tiles import on_chip, result_dtype, sbuf_copy, tile
from twintrack.nki.tensor import NkiTensor, to_dtype

__all__ = ["dropout", "rand", "random_seed"]

_UINT32 = DTYPES["uint32"]


def random_seed(seed: Any) -> None:
    """Seed the generator of the Vector Engine, from which ``rand`` and ``dropout`` draw.

    Args:
        seed: ``(1, 1)`` in SBUF or PSUM, of a 32-bit type.

    Raises:
        KernelError: for another shape or type.
    """
    isa.set_rng_seed(on_chip("random_seed", "seed", seed))


def rand(
    shape: Sequence[int],
    dtype: DType,
    buffer: MemoryRegion | str = MemoryRegion.sbuf,
    name: str = "",
) -> NkiTensor:
    """A new tensor of uniform random numbers from 0 below 1.

    ``nisa.rng`` gives 32 bits for each element; as many of them as the type has digits (24 of float32, 11 of float16, 8
    of bfloat16) are kept and divided by that power of two, so that every multiple of it below 1 is equally likely and
    none is rounded.

    Args:
        shape: positive sizes.
        dtype: a float.
        buffer: where; in HBM by way of a tile and a DMA per 128 rows.
        name: for messages and profiles.

    Raises:
        KernelError: for a type that is no float, and as ``nl.ndarray``.
    """
    kind = to_dtype(dtype)
    if not kind.is_float:
        raise author_error("a float type for nl.rand", kind, "draw integers with nisa.rng")
    made = creation.ndarray(shape, kind, buffer, name)
    if made.storage.buffer.on_chip:
        _fill(made)
        return made
    rows = made.reshape((made.shape[0], made.size // made.shape[0]))
    for start in range(0, rows.shape[0], PARTITIONS):
        part = rows[start : min(start + PARTITIONS, rows.shape[0])]
        drawn = tile(part.shape, kind)
        _fill(drawn)
        isa.dma_copy(part, drawn)
    return made


def _fill(dst: NkiTensor) -> None:
    digits = 24 if dst.dtype.number_format is None else 1 + dst.dtype.number_format.mantissa_bits
    bits = tile(dst.shape, _UINT32)
    isa.rng(bits)
    isa.tensor_scalar(bits, bits, "right_shift", 32 - digits)
    isa.tensor_scalar(dst, bits, "multiply", math.ldexp(1.0, -digits))


def dropout(x: Any, rate: Any, dtype: Any = None) -> NkiTensor:
    """``x`` with each element set to 0 by chance, the others as they are (not scaled), by ``nisa.dropout``.

    Args:
        x: a tile in SBUF or PSUM.
        rate: probability of 0: a number, or a tile ``(P, 1)`` with one for each partition.
        dtype: of the result; that of ``x`` where ``None``.

    Raises:
        KernelError: for operands in HBM, or a rate of another shape or type.
    """
    data = on_chip("dropout", "x", x)
    chance = on_chip("dropout", "rate", rate) if isinstance(rate, NkiTensor) else rate
    made = tile(data.shape, data.dtype)
    isa.dropout(made, data, chance)
    kind = result_dtype(dtype, data.dtype)
    return made if kind is data.dtype else sbuf_copy(made, kind)
