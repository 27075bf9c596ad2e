"""Assignments to views, copies, and operands repeated along dimensions of size 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.dtypes import DType
from twintrack.nki import assign as current
from twintrack.nki import isa
from twintrack.nki.isa.issue import author_error
from twintrack.nki.language import matrix, tiles
from twintrack.nki.legacy.masks import Region
from twintrack.nki.legacy.regions import defined, on_chip, operand, over, part, undefined
from twintrack.nki.legacy.tile import Tile
from twintrack.nki.tensor import NkiTensor

__all__ = ["assign", "common_shape", "copied", "reachable", "repeated"]


def assign(target: Tile, value: Any) -> None:
    """``target[...] = value``: an instruction that copies, but for a late result that can go there by itself.

    Raises:
        KernelError: if shapes or memories do not allow it.
    """
    if not isinstance(value, NkiTensor):
        over(None, target.shape, [target], lambda dst: _fill(dst, value))
        return
    tile = Tile.of(value)
    if tile.taken_by(target, "put_in"):
        return
    tile = operand("an assignment", "the value", tile)
    if _same(target, tile):
        return  # the second half of ``view[...] += value``
    if tile.size != target.size or (tile.ndim == target.ndim and tile.shape != target.shape):
        tile = repeated("an assignment", tile, target.shape)
    parts = defined(tile)
    if parts is None:
        over(None, target.shape, [target], lambda dst: _move(dst, tile))
    else:
        _assign_parts(target, tile, parts)


def _assign_parts(target: Tile, tile: Tile, parts: Sequence[Region]) -> None:
    """Copy what masks left of a result: the instruction wrote no more of the target, whose rest stays as it was."""
    if target.storage.buffer.on_chip and not target._limits and target.dynamic is None:
        undefined(target)  # where nothing was written it is as undefined as the result
    for region in parts:
        _move(part(target, _region_in(target, tile, region)), part(tile, region))


def _region_in(target: Tile, tile: Tile, region: Region) -> Region:
    """The rectangle of a target that one of a tile of as many elements is, where they differ in axes of size 1 alone.

    Raises:
        KernelError: if they differ otherwise, so that it may be none.
    """
    if target.shape == tile.shape:
        return region
    spans = [span for span, size in zip(region, tile.shape, strict=True) if size != 1]
    if [size for size in target.shape if size != 1] != [size for size in tile.shape if size != 1]:
        raise author_error(
            "a target of the same shape for a result of which a mask left a part",
            f"{list(target.shape)} for {list(tile.shape)}",
            "index the target with the result's axes",
        )
    return tuple([(0, 1) if size == 1 else spans.pop(0) for size in target.shape])


def _fill(dst: Tile, number: Any) -> None:
    if _addressable(dst):
        current.assign(dst, number)
        return
    tile = tiles.tile(dst.shape, dst.dtype)
    isa.memset(tile, number)
    isa.dma_copy(dst, tile)


def _move(dst: Tile, tile: Tile) -> None:
    if _addressable(dst) and (not dst.storage.buffer.on_chip or _addressable(tile)):
        current.assign(dst, tile)
    else:
        isa.dma_copy(dst, reachable(tile))


def _addressable(view: Tile) -> bool:
    """Whether engines reach the partitions of a view; a DMA reaches any in SBUF."""
    buffer = view.storage.buffer
    if buffer.region is not MemoryRegion.sbuf:
        return True
    count = view.shape[0]
    return view.start_partition % (32 if count <= 32 else 64 if count <= 64 else 128) == 0


def _same(first: Tile, second: Tile) -> bool:
    return (
        first.storage is second.storage
        and first.offset == second.offset
        and first.shape == second.shape
        and first.strides == second.strides
        and first.dynamic is second.dynamic
        and first.dtype is second.dtype
    )


def copied(tile: Tile, dtype: DType) -> Tile:
    """A dense copy in SBUF as this type."""
    return Tile.of(tiles.sbuf_copy(on_chip("a copy", "the tile", tile), dtype))


def reachable(tile: Tile) -> Tile:
    """The tile, or a copy in SBUF where it lies in PSUM."""
    return copied(tile, tile.dtype) if tile.buffer is MemoryRegion.psum else tile


def common_shape(function: str, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that operands are repeated to, by NumPy's rule; partitions too, as documented until 2.26.

    Raises:
        KernelError: if they do not fit.
    """
    try:
        return tuple(int(size) for size in np.broadcast_shapes(*shapes))
    except ValueError:
        raise author_error(
            f"tiles of {function} whose shapes broadcast",
            " and ".join(str(list(one)) for one in shapes),
            "slice or index them alike",
        ) from None


def repeated(function: str, tile: Tile, shape: tuple[int, ...]) -> Tile:
    """The operand in a larger shape: free dimensions by a view, partitions by a product with ones, or a DMA.

    Raises:
        KernelError: if it does not fit.
    """
    if tile.shape == shape:
        return tile
    if common_shape(function, [tile.shape, shape]) != shape:
        raise author_error(
            f"a tile of {function} that broadcasts to {list(shape)}",
            f"shape {list(tile.shape)}",
            "slice or index it alike",
        )
    found = tile._view(
        (1,) * (len(shape) - tile.ndim) + tile.shape,
        (0,) * (len(shape) - tile.ndim) + tile.strides,
        tile.offset,
        tile.dynamic,
    )
    if found.storage.buffer.on_chip and tile.ndim < len(shape) and tile.shape[0] > 1:
        raise author_error(
            f"as many dimensions in all tiles of {function}, so that partitions stay the first",
            f"shapes {list(tile.shape)} and {list(shape)}",
            "index with expressions over all axes",
        )
    if found.storage.buffer.on_chip and found.shape[0] != shape[0]:
        found = Tile.of(matrix.broadcast_to(reachable(found), (shape[0], *found.shape[1:])))
    strides = [
        step if have == want else 0
        for step, have, want in zip(found.strides, found.shape, shape, strict=True)
    ]
    return found._view(shape, tuple(strides), found.offset, found.dynamic)
