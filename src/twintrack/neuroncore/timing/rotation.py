"""Where the compiler would place tiles that it may place freely, as far as waiting goes.

A tile that takes the place of a dead one must wait for the last use of that one. Compilers place successive tiles
behind each other and come back to the beginning when the memory is full (next fit), so that a buffer is reused as late
as capacity allows: loads may run ahead as far as the memory is large. Lifetimes are those of program order.
"""

from __future__ import annotations

from collections.abc import Sequence

from twintrack.neuroncore.memory.buffer import Buffer, MemoryRegion
from twintrack.neuroncore.memory.generation import PSUM_BANK_BYTES, PSUM_BANKS, Generation

__all__ = ["predecessors"]


def predecessors(buffers: Sequence[Buffer], generation: Generation) -> dict[int, tuple[int, ...]]:
    """For every tile the dead tiles whose place it takes, as positions in ``buffers``.

    Tiles that do not fit (they are spilled, see ``memory.capacity``) take nobody's place.
    """
    found: dict[int, tuple[int, ...]] = {}
    for region, room, block in (
        (MemoryRegion.sbuf, generation.sbuf_partition_bytes, generation.sbuf_partition_bytes),
        (MemoryRegion.psum, PSUM_BANKS * PSUM_BANK_BYTES, PSUM_BANK_BYTES),
    ):
        members = [
            (one.first_use, at)
            for at, one in enumerate(buffers)
            if one.region is region and one.first_use >= 0
        ]
        _next_fit(sorted(members), buffers, room, block, found)
    return found


def _next_fit(
    order: Sequence[tuple[int, int]],
    buffers: Sequence[Buffer],
    room: int,
    block: int,
    found: dict[int, tuple[int, ...]],
) -> None:
    taken: list[tuple[int, int, int]] = []
    """``(start, end, tile)`` in the order of addresses; dead tiles stay until their place is taken."""
    pointer = 0
    for now, at in order:
        one = buffers[at]
        size = one.partition_bytes
        if one.address is not None:
            start: int | None = one.address[1]
        else:
            start = _fit(taken, buffers, pointer, size, room, block, now)
        if start is None:
            continue
        end = start + size
        replaced = [
            entry
            for entry in taken
            if entry[0] < end and entry[1] > start and not _beside(one, buffers[entry[2]])
        ]
        found[at] = tuple(entry[2] for entry in replaced)
        taken = [entry for entry in taken if entry not in replaced]
        taken.append((start, end, at))
        taken.sort()
        if one.address is None:
            pointer = end


def _beside(one: Buffer, other: Buffer) -> bool:
    """Whether two tiles that the author placed lie in different partitions."""
    if one.address is None or other.address is None:
        return False
    first, second = one.address[0], other.address[0]
    return first + one.shape[0] <= second or second + other.shape[0] <= first


def _fit(
    taken: Sequence[tuple[int, int, int]],
    buffers: Sequence[Buffer],
    pointer: int,
    size: int,
    room: int,
    block: int,
    now: int,
) -> int | None:
    """First place from ``pointer`` on, around once, that no living tile holds."""
    living = [(start, end) for start, end, at in taken if buffers[at].last_use >= now]
    for origin in (pointer, 0):
        start = _aligned(origin, size, block)
        moved = True
        while moved and start + size <= room:
            moved = False
            for low, high in living:
                if low < start + size and high > start:
                    start = _aligned(high, size, block)
                    moved = True
                    break
        if start + size <= room:
            return start
    return None


def _aligned(at: int, size: int, block: int) -> int:
    if size > block or at // block != (at + size - 1) // block:
        return -(-at // block) * block
    return at
