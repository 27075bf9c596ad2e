"""``nki.language``: matrix multiplication, transposition, and repeating partitions by the Tensor Engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.dtypes import DTYPES
from twintrack.neuroncore.memory.generation import PARTITIONS
from twintrack.nki import isa
from twintrack.nki.isa.issue import author_error
from twintrack.nki.language.tiles import broadcast_free, on_chip, result_dtype, sbuf_copy, tile
from twintrack.nki.tensor import NkiTensor

__all__ = ["broadcast_to", "matmul", "transpose"]

_FLOAT32 = DTYPES["float32"]
_MULTIPLIED = frozenset({"float32", "tfloat32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2"})
_MOST_MOVING = 512


def matmul(x: Any, y: Any, transpose_x: bool = False) -> NkiTensor:
    """``x @ y``, or ``x.T @ y`` where ``x`` is transposed already; float32 in PSUM.

    Args:
        x: SBUF, up to 128 x 128: ``(M, K)``, which a transposition by the Tensor Engine turns first, or with
            ``transpose_x`` ``(K, M)``.
        y: SBUF, ``(K, N)`` with N up to 512.
        transpose_x: whether ``x`` is ``(K, M)``.

    Raises:
        KernelError: for other shapes, regions or types (as ``nisa.nc_matmul``).
    """
    left, right = on_chip("matmul", "x", x), on_chip("matmul", "y", y)
    stationary = left
    if not transpose_x:
        stationary = sbuf_copy(transpose(left))
    dst = tile((stationary.free_size, right.free_size), _FLOAT32, MemoryRegion.psum)
    isa.nc_matmul(dst, stationary, right)
    return dst


def transpose(x: Any, dtype: Any = None) -> NkiTensor:
    """Partitions and free dimension of a tile exchanged, in PSUM.

    Args:
        x: two dimensions, up to 128 each; from PSUM by way of SBUF.
        dtype: of the result; that of ``x`` where ``None``.

    Raises:
        KernelError: for more dimensions, or larger ones.
    """
    data = on_chip("transpose", "x", x)
    if data.ndim != 2:
        raise author_error(
            "a tile of two dimensions for nl.transpose",
            f"shape {list(data.shape)}",
            "flatten its free dimensions with flatten_dims, or select a slice",
        )
    source = sbuf_copy(data) if data.buffer is MemoryRegion.psum else data
    turned = tile((data.shape[1], data.shape[0]), data.dtype, MemoryRegion.psum)
    isa.nc_transpose(turned, source, engine=isa.engine.tensor)
    kind = result_dtype(dtype, data.dtype)
    if kind is data.dtype:
        return turned
    dst = tile(turned.shape, kind, MemoryRegion.psum)
    isa.tensor_copy(dst, turned)
    return dst


def broadcast_to(x: Any, shape: Sequence[int], dtype: Any = None) -> NkiTensor:
    """Dimensions of size 1 repeated, in a new tile in SBUF; ``x`` itself where nothing changes.

    Free dimensions are repeated by a copy. One partition is repeated over others by the Tensor Engine, as a product
    with a row of ones (architecture guide, "Partition Broadcast"), 512 columns at a time; elements that it does not
    multiply (integers, ``float8_e4m3fn``) and rows that it cannot address go by DMAs, each of which doubles the rows.

    Args:
        x: a tile in SBUF or PSUM.
        shape: as many dimensions as ``x`` has; up to 128 partitions.
        dtype: of the result; that of ``x`` where ``None``.

    Raises:
        KernelError: for another number of dimensions, or sizes that differ from those of ``x`` where it has not 1.
    """
    data = on_chip("broadcast_to", "x", x)
    sizes = tuple(int(size) for size in shape)
    kind = result_dtype(dtype, data.dtype)
    if len(sizes) != data.ndim or any(
        mine not in (1, theirs) for mine, theirs in zip(data.shape, sizes, strict=True)
    ):
        raise author_error(
            f"a shape of {data.ndim} dimensions that differs from {list(data.shape)} where that has 1 only",
            f"{list(sizes)} for nl.broadcast_to",
            "insert size 1 with nl.expand_dims, or give the shape so",
        )
    if sizes[0] > PARTITIONS:
        raise author_error(
            f"at most {PARTITIONS} partitions for nl.broadcast_to", f"{sizes[0]}", "repeat it per tile of 128"
        )
    if data.shape == sizes:
        return data if kind is data.dtype else sbuf_copy(data, kind)
    if data.shape[0] != sizes[0]:
        data = _repeat_partition(data, sizes[0])
    if data.shape != sizes or data.dtype is not kind:
        data = sbuf_copy(broadcast_free("broadcast_to", data, sizes), kind)
    return data


def _repeat_partition(x: NkiTensor, count: int) -> NkiTensor:
    """``x`` of one partition on ``count`` partitions, in SBUF."""
    if x.buffer is MemoryRegion.psum:
        x = sbuf_copy(x)
    dst = tile((count, *x.shape[1:]), x.dtype)
    if x.dtype not in _MULTIPLIED or x.start_partition % 32:
        _double(dst, x, count)
        return dst
    if not x.is_contiguous():
        x = sbuf_copy(x)
    row, rows = x.reshape((1, x.free_size)), dst.reshape((count, dst.free_size))
    ones = tile((1, count), x.dtype)
    isa.memset(ones, 1.0)
    for start in range(0, row.shape[1], _MOST_MOVING):
        columns = slice(start, min(start + _MOST_MOVING, row.shape[1]))
        product = tile((count, columns.stop - start), _FLOAT32, MemoryRegion.psum)
        isa.nc_matmul(product, ones, row[:, columns], is_stationary_onezero=True)
        isa.tensor_copy(rows[:, columns], product)
    return dst


def _double(dst: NkiTensor, x: NkiTensor, count: int) -> None:
    isa.dma_copy(dst[0:1], x)
    done = 1
    while done < count:
        more = min(done, count - done)
        isa.dma_copy(dst[done : done + more], dst[0:more])
        done += more
