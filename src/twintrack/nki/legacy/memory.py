"""Moving data until 2.26: loads, stores and copies, with masks and indices held by tiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.dtypes import DType
from twintrack.nki import isa
from twintrack.nki.isa.issue import author_error, op_name
from twintrack.nki.language import matrix
from twintrack.nki.language import memory as current
from twintrack.nki.legacy.copies import reachable, repeated
from twintrack.nki.legacy.elementwise import lifted
from twintrack.nki.legacy.regions import Along, fresh, kind_of, on_chip, operand, over
from twintrack.nki.legacy.tile import Tile
from twintrack.nki.tensor import NkiTensor

__all__ = [
    "atomic_rmw",
    "broadcast_to",
    "copy",
    "expand_dims",
    "gather_flattened",
    "load",
    "load_transpose2d",
    "static_cast",
    "store",
    "transpose",
]


def _hbm(function: str, name: str, value: Any) -> Tile:
    found = operand(function, name, value)
    if found.storage.buffer.on_chip:
        raise author_error(
            f"a tensor in HBM for {name} of {function}",
            f"{found.buffer.value}, {found.describe()}",
            "copy tiles on chip with nl.copy",
        )
    return found


def load(src: Any, *, mask: Any = None, dtype: Any = None, name: str | None = None) -> Tile:
    """A new tile in SBUF with data of HBM; by one DMA for each rectangle of the mask.

    Args:
        src: up to 128 rows; may be indexed by a tile of row numbers.
        mask: what of it is loaded; the rest of the tile is undefined.
        dtype: of the tile; that of ``src`` where ``None``.
        name: for messages and profiles.

    Raises:
        KernelError: for a source on chip, or an index outside that no mask leaves out.
    """
    source = _hbm("nl.load", "src", src)
    shape = source.shape
    made = fresh(shape if len(shape) > 1 else (*shape, 1), kind_of(dtype, source.dtype))
    target = Along(made, tuple([*range(len(shape)), None][: made.ndim]))
    over(mask, shape, [target, source], lambda dst, part: isa.dma_copy(dst, part, name=name), made)
    return made


def store(dst: Any, value: Any, *, mask: Any = None, name: str | None = None) -> None:
    """Write a tile, or a number, to HBM, converted to its type; from PSUM by way of SBUF.

    Args:
        dst: in HBM; may be indexed by a tile of row numbers.
        value: as many elements as ``dst``; dimensions of size 1 are repeated.
        mask: what of it is stored.
        name: for messages and profiles.

    Raises:
        KernelError: for a destination on chip, shapes that do not fit, or an index outside that no mask leaves out.
    """
    target = _hbm("nl.store", "dst", dst)
    shape = target.shape
    if not isinstance(value, NkiTensor):
        over(mask, shape, [target], lambda part: _store_number(part, value, name))
        return
    tile = _shaped(reachable(on_chip("nl.store", "value", value)), shape)
    source = tile if isinstance(tile, Along) or tile.ndim == len(shape) else Along(tile, _axes(tile, shape))
    over(mask, shape, [target, source], lambda part, held: isa.dma_copy(part, held, name=name))


def _store_number(target: Tile, number: Any, name: str | None) -> None:
    rows = target.shape[0]
    if rows > 128:
        raise author_error(
            "at most 128 rows for a number to nl.store", f"{rows}", "store it per tile of 128 rows"
        )
    tile = fresh((rows, math.prod(target.shape[1:])), target.dtype)
    isa.memset(tile, number)
    isa.dma_copy(target, tile, name=name)


def _axes(tile: Tile, shape: tuple[int, ...]) -> tuple[int | None, ...]:
    return tuple(
        [axis if axis < len(shape) and tile.shape[axis] == shape[axis] else None for axis in range(tile.ndim)]
    )


def _shaped(tile: Tile, shape: tuple[int, ...]) -> Tile:
    """The tile in the destination's shape, where both hold as many elements."""
    if tile.shape == shape:
        return tile
    if tile.size != math.prod(shape):
        return repeated("nl.store", tile, shape)
    if len(shape) > 1 and shape[0] == tile.shape[0]:
        made = tile.reshape(shape)
        assert isinstance(made, Tile)  # noqa: S101
        return made
    return tile


def load_transpose2d(src: Any, *, mask: Any = None, dtype: Any = None) -> Tile:
    """A new tile in SBUF with the transposed data of HBM; see the current one."""
    source = _hbm("nl.load_transpose2d", "src", src)
    kind = kind_of(dtype, source.dtype)
    return lifted(
        lambda part: current.load_transpose2d(part, kind), mask, [source], source.shape, (1, 0), dtype=kind
    )


def copy(src: Any, *, mask: Any = None, dtype: Any = None, name: str | None = None) -> Tile:
    """A copy in SBUF, as another type where one is named."""
    tile = on_chip("nl.copy", "src", src)
    made = fresh(tile.shape, kind_of(dtype, tile.dtype))
    over(mask, tile.shape, [made, tile], lambda dst, part: isa.tensor_copy(dst, part, name=name), made)
    return made


def static_cast(input_data: Any, dtype: Any) -> Any:
    """Data of the caller's framework as another element type; for code around kernels."""
    return input_data.astype(dtype)


def broadcast_to(src: Any, *, shape: Sequence[int]) -> Tile:
    """Dimensions of size 1 repeated, partitions too; the tile itself where nothing changes."""
    tile = on_chip("nl.broadcast_to", "src", src)
    sizes = tuple([int(size) for size in shape])
    if tile.shape == sizes:
        return tile
    wide = repeated("nl.broadcast_to", tile, sizes)
    return copy(wide)


def expand_dims(data: Any, axis: int) -> Tile:
    """A view with a dimension of size 1 at ``axis``."""
    return operand("nl.expand_dims", "data", data).expand_dims(axis)


def transpose(x: Any, *, dtype: Any = None, mask: Any = None) -> Tile:
    """Partitions and free dimension of a tile exchanged; in PSUM."""
    tile = on_chip("nl.transpose", "x", x)
    kind = kind_of(dtype, tile.dtype)
    return lifted(lambda part: matrix.transpose(part, kind), mask, [tile], tile.shape, (1, 0), dtype=kind)


def gather_flattened(data: Any, indices: Any, *, mask: Any = None, dtype: Any = None) -> Tile:
    """In every partition the elements that ``indices`` name among the flattened free dimensions of ``data``."""
    source = on_chip("nl.gather_flattened", "data", data)
    chosen = on_chip("nl.gather_flattened", "indices", indices)
    rows: tuple[int | None, ...] = (0, *[None] * (source.ndim - 1))
    kind: DType = kind_of(dtype, source.dtype)
    return lifted(
        lambda held, index: current.gather_flattened(held, index, dtype=kind),
        mask,
        [Along(source, rows), chosen],
        chosen.shape,
        dtype=kind,
    )


def atomic_rmw(dst: Any, value: Any, op: Any, *, mask: Any = None) -> None:
    """``dst = dst <op> value`` in HBM, by a DMA that adds; ``dst`` is indexed by a tile of row numbers.

    Raises:
        KernelError: for another operator than ``np.add``.
    """
    target = _hbm("nl.atomic_rmw", "dst", dst)
    if op_name(op) != "add":
        raise author_error("np.add for nl.atomic_rmw", f"{op!r}", "use it, as 2.26 documents no other")
    if isinstance(value, NkiTensor):
        held = _shaped(reachable(on_chip("nl.atomic_rmw", "value", value)), target.shape)
    else:
        held = fresh(target.shape, target.dtype, MemoryRegion.sbuf)
        isa.memset(held, value)
    over(mask, target.shape, [target, held], lambda part, more: isa.dma_compute(part, [part, more], "add"))
