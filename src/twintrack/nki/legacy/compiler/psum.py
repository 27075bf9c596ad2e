"""``neuronxcc.nki.compiler.psum``: where tiles lie in PSUM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.nki.legacy.allocation import Placement, modulo

__all__ = ["alloc", "auto_alloc", "mod_alloc"]


def alloc(func: Callable[[tuple[int, ...], int, int], Any]) -> Placement:
    """Tiles where a function puts them.

    Args:
        func: takes a tile's block index, its partitions and its bytes per partition; returns
            ``(bank, partition, byte in the bank)``.
    """
    return Placement(MemoryRegion.psum, func)


def mod_alloc(
    *,
    base_bank: int,
    base_addr: int = 0,
    base_partition: int = 0,
    num_bank_tiles: Any = (),
    num_par_tiles: Any = (),
    num_free_tiles: Any = (),
) -> Placement:
    """Tiles in rotation over banks, partitions and bytes.

    Args:
        base_bank: bank of the first.
        base_addr: its byte in the bank.
        base_partition: its partition.
        num_bank_tiles: banks, per block dimension; one each where empty.
        num_par_tiles: places along partitions, likewise.
        num_free_tiles: places along bytes, likewise.
    """

    def place(index: tuple[int, ...], partitions: int, size: int) -> tuple[int, int, int]:
        return (
            modulo(base_bank, num_bank_tiles, 1)(index),
            modulo(base_partition, num_par_tiles, partitions)(index),
            modulo(base_addr, num_free_tiles, size)(index),
        )

    return Placement(MemoryRegion.psum, place)


def auto_alloc() -> Placement:
    """Tiles where the compiler puts them; as ``nl.psum``."""
    return Placement(MemoryRegion.psum, None)
