"""``neuronxcc.nki.compiler.sbuf``: where tiles lie in SBUF."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.nki.legacy.allocation import Placement, modulo

__all__ = ["alloc", "auto_alloc", "mod_alloc"]


def alloc(func: Callable[[tuple[int, ...], int, int], Any]) -> Placement:
    """Tiles where a function puts them.

    Args:
        func: takes a tile's block index, its partitions and its bytes per partition; returns ``(partition, byte)``.
    """
    return Placement(MemoryRegion.sbuf, func)


def mod_alloc(
    *, base_addr: int, base_partition: int = 0, num_par_tiles: Any = (), num_free_tiles: Any = ()
) -> Placement:
    """Tiles in rotation over a number of places.

    Args:
        base_addr: byte in the partition of the first.
        base_partition: partition of the first.
        num_par_tiles: places along partitions, per block dimension; one each where empty.
        num_free_tiles: places along bytes, likewise.
    """

    def place(index: tuple[int, ...], partitions: int, size: int) -> tuple[int, int]:
        row = modulo(base_partition, num_par_tiles, partitions)(index)
        return row, modulo(base_addr, num_free_tiles, size)(index)

    return Placement(MemoryRegion.sbuf, place)


def auto_alloc() -> Placement:
    """Tiles where the compiler puts them; as ``nl.sbuf``."""
    return Placement(MemoryRegion.sbuf, None)
