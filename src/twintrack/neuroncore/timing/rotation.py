"""Where the compiler would place tiles that it may place freely, as far as waiting goes.

A tile that takes the place of a dead one must wait for the last use of that one. Compilers place successive tiles
behind each other and come back to the beginning when the memory is full (next fit), so that a buffer is reused as late
as capacity allows: loads may run ahead as far as the memory is large. Lifetimes are those of program order.
"""

from __future__ import annotations

from bisect import bisect_left
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
    taken = _Taken(buffers)
    pointer = 0
    for now, at in order:
        one = buffers[at]
        size = one.partition_bytes
        if one.address is not None:
            start: int | None = one.address[1]
        else:
            start = taken.fit(pointer, size, room, block, now)
        if start is None:
            continue
        found[at] = taken.put(start, start + size, at)
        if one.address is None:
            pointer = start + size


class _Taken:
    """Places and who has them, in the order of addresses; dead tiles stay until their place is taken."""

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self._buffers = buffers
        self._starts: list[int] = []
        self._entries: list[tuple[int, int, int]] = []
        """``(start, end, tile)``"""
        self._widest = 0

    def put(self, start: int, end: int, at: int) -> tuple[int, ...]:
        """Give a place to a tile: whose it was."""
        one = self._buffers[at]
        first = bisect_left(self._starts, start - self._widest)
        replaced: list[tuple[int, int, int]] = []
        kept: list[tuple[int, int, int]] = []
        last = first
        while last < len(self._entries) and self._entries[last][0] < end:
            entry = self._entries[last]
            mine = entry[1] > start and not _beside(one, self._buffers[entry[2]])
            (replaced if mine else kept).append(entry)
            last += 1
        kept.append((start, end, at))
        kept.sort()
        self._entries[first:last] = kept
        self._starts[first:last] = [entry[0] for entry in kept]
        self._widest = max(self._widest, end - start)
        return tuple(entry[2] for entry in replaced)

    def fit(self, pointer: int, size: int, room: int, block: int, now: int) -> int | None:
        """First place from ``pointer`` on, around once, that no living tile holds."""
        for origin in (pointer, 0):
            start = _aligned(origin, size, block)
            at = bisect_left(self._starts, start - self._widest)
            while at < len(self._entries) and start + size <= room:
                low, high, tile = self._entries[at]
                if low >= start + size:
                    break
                if high > start and self._buffers[tile].last_use >= now:
                    start = _aligned(high, size, block)
                at += 1
            if start + size <= room:
                return start
        return None


def _beside(one: Buffer, other: Buffer) -> bool:
    """Whether two tiles that the author placed lie in different partitions."""
    if one.address is None or other.address is None:
        return False
    first, second = one.address[0], other.address[0]
    return first + one.shape[0] <= second or second + other.shape[0] <= first


def _aligned(at: int, size: int, block: int) -> int:
    if size > block or at // block != (at + size - 1) // block:
        return -(-at // block) * block
    return at
