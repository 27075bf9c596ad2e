"""Whether a kernel's tiles fit on chip: lifetimes, placement, what the compiler would have to spill.

A tile lives from its first to its last use. Tiles that the author placed stay where they are; the others are placed
around them in three ways that production compilers use: over the instructions in order, always into the lowest gap or
into the smallest that fits, and, where both must spill, the largest tiles first. What the best of them spills counts.
Over the instructions the tile to spill is the one whose last use is furthest away (Belady's rule on whole lifetimes).
Finding the least possible is a hard problem (dynamic storage allocation); the real compiler may do better or worse.

A tile takes its bytes in all 128 partitions, however many it has. Only tiles that the author placed can lie side by
side in different partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from twintrack.neuroncore.memory.buffer import Buffer, MemoryRegion
from twintrack.neuroncore.memory.generation import PSUM_BANK_BYTES, PSUM_BANKS, Generation

__all__ = ["MemoryUse", "Spill", "memory_use", "placements"]


@dataclass(frozen=True, slots=True)
class Spill:
    """A tile that does not fit.

    Args:
        buffer: the tile.
        bytes: of all its partitions, moved out and in again once.
        line: where the tile was made whose turn it was when nothing fitted.
    """

    buffer: Buffer
    bytes: int
    line: str


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """What a run took on chip.

    Args:
        sbuf_peak: bytes per partition, the most that was live at once; bytes where placed tiles overlap count once.
        psum_peak: likewise, in PSUM.
        sbuf_bytes: bytes per partition that there are.
        spills: tiles of SBUF that do not fit, in the order in which they would be spilled.
        psum_over: the tile in PSUM that does not fit, if any.
    """

    sbuf_peak: int
    psum_peak: int
    sbuf_bytes: int
    spills: tuple[Spill, ...]
    psum_over: Buffer | None

    @property
    def spilled_bytes(self) -> int:
        """Bytes of all spilled tiles."""
        return sum(one.bytes for one in self.spills)


def memory_use(buffers: Iterable[Buffer], generation: Generation) -> MemoryUse:
    """Place every tile of a run.

    Args:
        buffers: of one core, with their first and last use.
        generation: whose sizes hold.
    """
    used = [one for one in buffers if one.on_chip and one.first_use >= 0]
    sbuf = [one for one in used if one.region is MemoryRegion.sbuf]
    psum = [one for one in used if one.region is MemoryRegion.psum]
    room = generation.sbuf_partition_bytes
    spilled = _best(sbuf, _Room(room, room)).spills
    over = _best(psum, _Room(PSUM_BANKS * PSUM_BANK_BYTES, PSUM_BANK_BYTES)).spills
    return MemoryUse(_peak(sbuf), _peak(psum), room, tuple(spilled), over[0].buffer if over else None)


def placements(buffers: Iterable[Buffer], generation: Generation) -> dict[int, int]:
    """Byte in the partition of every tile that fits, by the buffer's number, as ``memory_use`` places them.

    Args:
        buffers: of one core, with their first and last use.
        generation: whose sizes hold.
    """
    used = [one for one in buffers if one.on_chip and one.first_use >= 0]
    room = generation.sbuf_partition_bytes
    found = _best([one for one in used if one.region is MemoryRegion.sbuf], _Room(room, room)).placed
    banks = _Room(PSUM_BANKS * PSUM_BANK_BYTES, PSUM_BANK_BYTES)
    return found | _best([one for one in used if one.region is MemoryRegion.psum], banks).placed


@dataclass(slots=True)
class _Placed:
    """An outcome: bytes by buffer number, and what found no place."""

    placed: dict[int, int] = field(default_factory=dict)
    spills: list[Spill] = field(default_factory=list)

    @property
    def cost(self) -> int:
        return sum(one.bytes for one in self.spills)


def _best(tiles: Sequence[Buffer], room: _Room) -> _Placed:
    found = _Scan(room, tight=False).run(tiles)
    if found.spills:
        found = min(found, _Scan(room, tight=True).run(tiles), key=lambda one: one.cost)
    if found.spills:
        found = min(found, _largest_first(tiles, room), key=lambda one: one.cost)
    return found


def _peak(tiles: Sequence[Buffer]) -> int:
    """Most bytes of a partition that are live at once; bytes that several placed tiles take count once."""
    changes: list[tuple[int, int, int, Buffer]] = []
    for one in tiles:
        changes.append((one.first_use, 1, one.number, one))
        changes.append((one.last_use + 1, 0, one.number, one))
    live = most = taken = 0
    placed: dict[int, Buffer] = {}
    for _, begins, number, one in sorted(changes, key=lambda change: change[:3]):
        if one.address is None:
            live += one.partition_bytes if begins else -one.partition_bytes
        else:
            if begins:
                placed[number] = one
            else:
                del placed[number]
            taken = _union(placed.values())
        most = max(most, live + taken)
    return most


def _union(placed: Iterable[Buffer]) -> int:
    size = reached = 0
    for start, end in sorted(_fixed(one) for one in placed):
        size += max(0, end - max(start, reached))
        reached = max(reached, end)
    return size


def _fixed(one: Buffer) -> tuple[int, int]:
    assert one.address is not None  # noqa: S101 - asked only of placed tiles
    return one.address[1], one.address[1] + one.partition_bytes


def _meet(first: Buffer, second: Buffer) -> bool:
    """Whether both are live at some instruction."""
    return first.first_use <= second.last_use and second.first_use <= first.last_use


@dataclass(frozen=True, slots=True)
class _Room:
    """Bytes of one partition.

    Args:
        size: how many.
        block: a tile no larger than this does not cross a multiple of it, a larger one starts at one (a PSUM bank).
    """

    size: int
    block: int

    def gap(self, taken: Iterable[tuple[int, int]], size: int, *, tight: bool) -> int:
        """Start of the lowest gap between intervals in which ``size`` bytes fit, or of the smallest; -1 for none."""
        best, best_size = -1, self.size + 1
        at = 0
        for start, end in [*sorted(taken), (self.size, self.size)]:
            begin = self._aligned(at, size)
            if begin + size <= start:
                if not tight:
                    return begin
                if start - at < best_size:
                    best, best_size = begin, start - at
            at = max(at, end)
        return best

    def _aligned(self, at: int, size: int) -> int:
        if at // self.block != (at + size - 1) // self.block:
            return -(-at // self.block) * self.block
        return at


class _Scan:
    """One pass over the tiles in the order of their first use.

    Args:
        room: where they go.
        tight: take the smallest gap that fits, instead of the lowest.
    """

    def __init__(self, room: _Room, *, tight: bool) -> None:
        self.room = room
        self.tight = tight
        self.live: list[tuple[int, int, Buffer]] = []
        """``(start, end, tile)``."""
        self.found = _Placed()

    def run(self, tiles: Sequence[Buffer]) -> _Placed:
        """Place them all."""
        fixed = [one for one in tiles if one.address is not None]
        for one in sorted(tiles, key=lambda tile: (tile.first_use, tile.number)):
            self.live = [entry for entry in self.live if entry[2].last_use >= one.first_use]
            if one.address is not None:
                self._put(one, one.address[1])
                continue
            self._place(one, [_fixed(other) for other in fixed if _meet(one, other)])
        return self.found

    def _place(self, one: Buffer, avoid: list[tuple[int, int]]) -> None:
        victims: list[tuple[int, int, Buffer]] = []
        while (start := self._gap(one, avoid)) < 0:
            movable = [entry for entry in self.live if entry[2].address is None]
            last = max(movable, key=lambda entry: (entry[2].last_use, entry[2].number), default=None)
            if last is None or last[2].last_use <= one.last_use:
                self.live += victims  # they would have gone for nothing
                self.found.spills.append(Spill(one, one.bytes, one.line))
                return
            victims.append(last)
            self.live.remove(last)
        self._put(one, start)
        for begin, end, victim in victims:
            if all(end <= other or begin >= until for other, until, _ in self.live):
                self.live.append((begin, end, victim))  # room was made elsewhere
            else:
                del self.found.placed[victim.number]
                self.found.spills.append(Spill(victim, victim.bytes, one.line))

    def _gap(self, one: Buffer, avoid: list[tuple[int, int]]) -> int:
        taken = [(start, end) for start, end, _ in self.live] + avoid
        return self.room.gap(taken, one.partition_bytes, tight=self.tight)

    def _put(self, one: Buffer, start: int) -> None:
        self.found.placed[one.number] = start
        self.live.append((start, start + one.partition_bytes, one))


def _largest_first(tiles: Sequence[Buffer], room: _Room) -> _Placed:
    """Place the largest tiles first, each into the smallest gap between those with which it is live."""
    found = _Placed()
    count = len(tiles)
    starts, ends = np.zeros(count, np.int64), np.zeros(count, np.int64)
    begins = np.array([one.first_use for one in tiles], np.int64)
    lasts = np.array([one.last_use for one in tiles], np.int64)
    order = sorted(range(count), key=lambda at: (tiles[at].address is None, -tiles[at].partition_bytes, at))
    for at in order:
        one = tiles[at]
        if one.address is not None:
            start = one.address[1]
        else:
            meeting = (begins <= one.last_use) & (lasts >= one.first_use) & (ends > 0)
            taken = zip(starts[meeting].tolist(), ends[meeting].tolist(), strict=True)
            start = room.gap(taken, one.partition_bytes, tight=True)
        if start < 0:
            found.spills.append(Spill(one, one.bytes, one.line))
            continue
        starts[at], ends[at] = start, start + one.partition_bytes
        found.placed[one.number] = start
    found.spills.sort(key=lambda spill: (spill.buffer.first_use, spill.buffer.number))
    return found
