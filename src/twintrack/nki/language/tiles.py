"""What the operations of ``nki.language`` share: which operands they take, result types, broadcasting, new tiles.

Type promotion follows the table "NKI Type Promotion" of the AWS Neuron documentation (2.26, ``nki.api.shared.rst``;
later versions state no other): a float before integers, else the narrowest type that holds both ranges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from twintrack.errors import KernelError
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.dtypes import DTYPES, DType
from twintrack.nki import isa
from twintrack.nki.isa.issue import author_error
from twintrack.nki.language import creation
from twintrack.nki.tensor import NkiTensor, to_dtype

__all__ = ["broadcast_free", "on_chip", "promoted", "result_dtype", "sbuf_copy", "tile"]

_FLOAT_ORDER: Mapping[str, int] = MappingProxyType(
    {
        "float8_e4m3": 1,
        "float8_e4m3fn": 1,
        "float8_e5m2": 1,
        "float16": 2,
        "bfloat16": 2,
        "tfloat32": 3,
        "float32": 4,
    }
)
_WIDENED: Mapping[int, str] = MappingProxyType({1: "bfloat16", 2: "float32"})


def on_chip(function: str, operand: str, value: object) -> NkiTensor:
    """The operand, which must be a tile in SBUF or PSUM.

    Raises:
        KernelError: if it is no tensor, or lies in HBM.
    """
    if not isinstance(value, NkiTensor):
        raise author_error(
            f"a tile for {operand} of nl.{function}", type(value).__name__, "pass a tensor in SBUF or PSUM"
        )
    if not value.storage.buffer.on_chip:
        raise author_error(
            f"a tile in SBUF or PSUM for {operand} of nl.{function}",
            f"{value.buffer.value}, {value.describe()}",
            "load it with nl.load (or nisa.dma_copy) first",
        )
    return value


def tile(shape: Sequence[int], dtype: DType, buffer: MemoryRegion = MemoryRegion.sbuf) -> NkiTensor:
    """A new tile for a result, nothing written to it."""
    return creation.ndarray(shape, dtype, buffer)


def result_dtype(dtype: object, default: DType) -> DType:
    """The type that the author asks for, or the default."""
    return default if dtype is None else to_dtype(dtype)


def promoted(first: DType, second: DType) -> DType:
    """The type of a result of two tiles where the author names none.

    int32 with uint32 gives float32, as there is no 64-bit integer; narrow floats of equal width give the next wider
    type that holds both.

    Raises:
        KernelError: for packed types and scales, which do not combine with others.
    """
    if first is second:
        return first
    if first.is_float or second.is_float:
        if not (first.is_float and second.is_float):
            numbers = first if first.is_float else second
            other = second if first.is_float else first
            if other.is_integer:
                return numbers
        elif first in _FLOAT_ORDER and second in _FLOAT_ORDER:
            mine, theirs = _FLOAT_ORDER[first], _FLOAT_ORDER[second]
            if mine == theirs:
                return DTYPES[_WIDENED[mine]]
            return first if mine > theirs else second
    elif first.is_integer and second.is_integer:
        return _promoted_integers(first, second)
    raise author_error(
        "element types that combine", f"{first} and {second}", "pass dtype=, or convert one of them"
    )


def _promoted_integers(first: DType, second: DType) -> DType:
    narrow, wide = sorted((first, second), key=lambda one: one.bytes)
    signed = {one.kind == "int" for one in (first, second)}
    if len(signed) == 1:
        return DTYPES["uint8"] if "bool" in (narrow, wide) and wide.bytes == 1 else wide
    if wide.kind == "int" and wide.bytes > narrow.bytes:
        return wide
    return DTYPES[{1: "int16", 2: "int32", 4: "float32"}[wide.bytes]]


def broadcast_free(function: str, x: NkiTensor, shape: Sequence[int]) -> NkiTensor:
    """A view of the operand in this shape, free dimensions of size 1 repeated; no data moves.

    An operand ``(P, 1)`` fits any number of free dimensions.

    Raises:
        KernelError: if ranks or sizes differ otherwise, or partitions would have to be repeated.
    """
    if x.shape == tuple(shape):
        return x
    if x.shape[0] != shape[0]:
        raise _other_partitions(function, x, shape)
    found = x
    if x.free_size == 1:
        while found.ndim > 2:
            found = found.squeeze_dim(found.ndim - 1)
        while found.ndim < len(shape):
            found = found.expand_dim(found.ndim)
    if found.ndim != len(shape):
        raise _unlike(function, x, shape)
    for dim, size in enumerate(shape):
        if found.shape[dim] != size:
            if found.shape[dim] != 1:
                raise _unlike(function, x, shape)
            found = found.broadcast(dim, size)
    return found


def _other_partitions(function: str, x: NkiTensor, shape: Sequence[int]) -> KernelError:
    remedy = "slice or allocate them alike"
    for one, other in ((x.shape, shape), (shape, x.shape)):
        if one[0] == 1:
            remedy = f"repeat the one partition with nl.broadcast_to(..., {(other[0], *one[1:])}) first"
    return author_error(
        f"as many partitions in all tiles of nl.{function}, which does not broadcast over partitions",
        f"{x.shape[0]} and {shape[0]} (shapes {list(x.shape)} and {list(shape)})",
        remedy,
    )


def _unlike(function: str, x: NkiTensor, shape: Sequence[int]) -> KernelError:
    return author_error(
        f"tiles of nl.{function} that agree in every dimension, or have size 1 in a free one",
        f"shapes {list(x.shape)} and {list(shape)}",
        "slice or reshape them alike, or insert size 1 with nl.expand_dims",
    )


def sbuf_copy(x: NkiTensor, dtype: DType | None = None, **options: Any) -> NkiTensor:
    """A dense copy in SBUF, by ``nisa.tensor_copy``."""
    made = tile(x.shape, x.dtype if dtype is None else dtype)
    isa.tensor_copy(made, x, **options)
    return made
