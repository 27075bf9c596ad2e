"""How an operation of the dialect until 2.26 becomes instructions: operands cut to what its mask leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from twintrack.errors import KernelError
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.dtypes import DType
from twintrack.nki import isa
from twintrack.nki.isa.issue import author_error
from twintrack.nki.language import creation
from twintrack.nki.legacy.masks import Region, regions, whole
from twintrack.nki.legacy.tile import Tile, settle
from twintrack.nki.tensor import NkiTensor, to_dtype

__all__ = [
    "Along",
    "defined",
    "fresh",
    "in_sbuf",
    "kind_of",
    "on_chip",
    "operand",
    "over",
    "part",
    "undefined",
]


class Along(NamedTuple):
    """An operand whose axes are not those of the operation.

    Args:
        tile: the operand.
        axes: per axis of the tile the axis of the operation that it follows; ``None`` for one that stays whole.
    """

    tile: Tile
    axes: tuple[int | None, ...]


def operand(function: str, name: str, value: Any) -> Tile:
    """The operand, which must be a tensor; issued, if it was late.

    Raises:
        KernelError: if it is none.
    """
    if not isinstance(value, NkiTensor):
        raise author_error(
            f"a tile for {name} of {function}", type(value).__name__, "pass a tensor, or a part of one"
        )
    found = Tile.of(value)
    return found.settled() if found._late is not None else found


def on_chip(function: str, name: str, value: Any) -> Tile:
    """The operand, which must be a tile in SBUF or PSUM.

    Raises:
        KernelError: if it is none.
    """
    found = operand(function, name, value)
    if not found.storage.buffer.on_chip:
        raise author_error(
            f"a tile in SBUF or PSUM for {name} of {function}",
            f"{found.buffer.value}, {found.describe()}",
            "load it with nl.load first",
        )
    return found


def in_sbuf(function: str, name: str, value: Any) -> Tile:
    """The operand of an instruction of GpSimd or the Tensor Engine, which read SBUF only: copied there from PSUM.

    Published kernels of this dialect hand such tiles over.

    Raises:
        KernelError: if it is no tile in SBUF or PSUM.
    """
    found = on_chip(function, name, value)
    if found.buffer is not MemoryRegion.psum:
        return found
    made = fresh(found.shape, found.dtype)
    isa.tensor_copy(made, found)
    return made


def kind_of(dtype: Any, default: DType) -> DType:
    """The element type that is asked for, or the default."""
    return default if dtype is None else to_dtype(dtype)


def fresh(shape: Sequence[int], dtype: DType, region: MemoryRegion = MemoryRegion.sbuf) -> Tile:
    """A new tile for a result."""
    return Tile.of(creation.ndarray(shape, dtype, region))


def undefined(tile: Tile) -> None:
    """What nothing writes of a result may be read: it holds NaN, or 4 in integers.

    As documented, a masked instruction leaves the rest of its result undefined; kernels compute on with it, and do not
    store it.
    """
    tile.storage.written.allow(tile.pattern())


def defined(tile: Tile) -> Sequence[Region] | None:
    """The rectangles of a tile that something wrote, where masks left out others; ``None`` where all of it counts."""
    written = tile.storage.written
    if written.whole or written.undefined is None or tile.dynamic is not None:
        return None
    there = written.which(tile.shape, tile.strides, tile.offset, tile.dtype.bytes)
    return None if there.all() else tuple(_rectangles(there))


def _rectangles(there: npt.NDArray[np.bool_]) -> Iterator[Region]:
    """Rectangles that cover exactly the true elements: runs of equal slabs along the last axis, and so on in each."""
    axis = there.ndim - 1
    if axis < 0 or not there.any():
        return
    slabs = np.moveaxis(there, axis, 0)
    changes = (slabs[1:] != slabs[:-1]).reshape(len(slabs) - 1, -1).any(axis=1)
    ends = [0, *(int(at) + 1 for at in np.flatnonzero(changes)), len(slabs)]
    for start, stop in pairwise(ends):
        slab = np.asarray(slabs[start])
        if not axis:
            if slab:
                yield ((start, stop),)
            continue
        for region in _rectangles(slab):
            yield (*region, (start, stop))


def over(
    mask: Any,
    shape: tuple[int, ...],
    operands: Sequence[Any],
    issue: Callable[..., Any],
    result: Tile | None = None,
) -> None:
    """Issue an operation on each rectangle of its axes that a mask leaves.

    Args:
        mask: see ``masks.regions``.
        shape: of the operation's axes.
        operands: tiles, ``Along`` or anything else, in the order in which ``issue`` takes them. A tile follows the
            axes in which its size is that of the operation.
        issue: takes the operands, cut.
        result: a new tile that may stay partly unwritten.

    Raises:
        KernelError: if an operand's index leaves its tensor.
    """
    settle()
    if mask is None:
        issue(*[_checked(one) for one in operands])
        return
    found = regions(mask, shape)
    if result is not None and found != [whole(shape)]:
        undefined(result)
    for region in found:
        issue(*[_cut(one, shape, region) for one in operands])


def part(tile: Tile, region: Region) -> Tile:
    """A rectangle of a tile.

    Raises:
        KernelError: if its index leaves its tensor.
    """
    return _part(tile, region)


def _checked(one: Any) -> Any:
    """An operand that nothing is cut off, once its index expressions are known to stay inside."""
    tile = one.tile if type(one) is Along else one
    if type(tile) is Tile and tile._limits:
        return _part(tile, whole(tile.shape))
    return tile


def _cut(one: Any, shape: tuple[int, ...], region: Region) -> Any:
    if not isinstance(one, Tile | Along):
        return one
    return _part(one.tile if isinstance(one, Along) else one, _spans(one, shape, region))


def _spans(one: Tile | Along, shape: tuple[int, ...], region: Region) -> Region:
    """What a rectangle of an operation's axes is of an operand."""
    tile: Tile = one.tile if isinstance(one, Along) else one
    if isinstance(one, Along):
        axes = one.axes
    elif tile.ndim == len(shape):
        axes = tuple([d if tile.shape[d] == shape[d] else None for d in range(tile.ndim)])
    else:
        axes = (0 if tile.shape[0] == shape[0] else None, *[None] * (tile.ndim - 1))
    return tuple([(0, tile.shape[at]) if axis is None else region[axis] for at, axis in enumerate(axes)])


def _part(tile: Tile, spans: Region) -> Tile:
    for limit in tile._limits:
        outside = limit.broken_by([a for a, _ in spans], [b for _, b in spans])
        if outside is not None:
            raise _outside(tile, limit.dim, limit.size, outside)
    if not tile._limits and all(span == (0, size) for span, size in zip(spans, tile.shape, strict=True)):
        return tile
    offset = tile.offset + sum(a * step for (a, _), step in zip(spans, tile.strides, strict=True))
    if tile.dynamic is not None and tile.dynamic.kind == "vector" and spans[0] != (0, tile.shape[0]):
        start, stop = spans[0]
        index = tile.dynamic.index
        rows = index._view(
            (stop - start, *index.shape[1:]), index.strides, index.offset + start * index.strides[0]
        )
        return tile._view(
            tuple([b - a for a, b in spans]), tile.strides, offset, tile.dynamic._replace(index=rows)
        )
    return tile._view(tuple([b - a for a, b in spans]), tile.strides, offset, tile.dynamic)


def _outside(tile: Tile, dim: int, size: int, index: int) -> KernelError:
    return author_error(
        f"an index inside the {size} elements of dimension {dim}",
        f"{index} into {tile.storage.buffer!r}",
        "pass a mask that leaves out what lies outside, to every load and store that it concerns",
    )
