"""Whether a kernel's tiles fit on chip: lifetimes, placement, what the compiler would have to spill.

A tile lives from its first to its last use. Tiles that the author placed stay where they are; the others are placed by
a linear scan over the instructions, in the two ways that production compilers use most: always the lowest gap, or the
smallest gap that fits. Where both must spill, the one that spills fewer bytes counts. A tile is spilled to HBM when
nothing else fits: the one whose last use is furthest away (Belady's rule on whole lifetimes).

A tile of fewer than 128 partitions takes its bytes in all of them, unless it was placed: an upper bound, and what a
kernel author plans with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
        sbuf_peak: bytes per partition, the most that was live at once.
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
    tries = [_Scan(room, 1, room, tight=tight).run(sbuf) for tight in (False, True)]
    best = min(tries, key=lambda scan: sum(one.bytes for one in scan.spills))
    banks = _Scan(PSUM_BANKS * PSUM_BANK_BYTES, PSUM_BANK_BYTES, PSUM_BANK_BYTES, tight=True).run(psum)
    return MemoryUse(
        _peak(sbuf),
        _peak(psum),
        room,
        tuple(best.spills),
        banks.spills[0].buffer if banks.spills else None,
    )


def placements(buffers: Iterable[Buffer], generation: Generation) -> dict[int, int]:
    """Byte in the partition of every tile of SBUF that fits, by the buffer's number, lowest gap first."""
    sbuf = [one for one in buffers if one.region is MemoryRegion.sbuf and one.first_use >= 0]
    room = generation.sbuf_partition_bytes
    return _Scan(room, 1, room, tight=False).run(sbuf).placed


def _peak(buffers: Sequence[Buffer]) -> int:
    """Most bytes per partition that are live at once."""
    changes: list[tuple[int, int]] = []
    for one in buffers:
        changes.append((one.first_use, one.partition_bytes))
        changes.append((one.last_use + 1, -one.partition_bytes))
    live = most = 0
    for _, change in sorted(changes):
        live += change
        most = max(most, live)
    return most


class _Scan:
    """One pass over the tiles in the order of their first use.

    Args:
        room: bytes per partition.
        align: a tile larger than ``block`` starts at a multiple of this.
        block: a tile no larger than this does not cross a multiple of it (a PSUM bank).
        tight: take the smallest gap that fits, instead of the lowest.
    """

    def __init__(self, room: int, align: int, block: int, *, tight: bool) -> None:
        self.room = room
        self.align = align
        self.block = block
        self.tight = tight
        self.live: list[tuple[int, int, Buffer]] = []
        """``(start, end, tile)`` by start."""
        self.placed: dict[int, int] = {}
        self.spills: list[Spill] = []

    def run(self, buffers: Sequence[Buffer]) -> _Scan:
        """Place them all."""
        fixed = [one for one in buffers if one.address is not None]
        for one in sorted(buffers, key=lambda b: (b.first_use, b.number)):
            self.live = [entry for entry in self.live if entry[2].last_use >= one.first_use]
            if one.address is not None:
                self._put(one, one.address[1])
                continue
            avoid = [other for other in fixed if _meet(one, other) and other.first_use > one.first_use]
            while (start := self._gap(one, avoid)) < 0:
                if not self._spill(one):
                    break
            if start >= 0:
                self._put(one, start)
        return self

    def _put(self, one: Buffer, start: int) -> None:
        self.placed[one.number] = start
        self.live.append((start, start + one.partition_bytes, one))
        self.live.sort(key=lambda entry: entry[:2])

    def _spill(self, one: Buffer) -> bool:
        """Give up the live tile that is needed last; false where that is the new one itself."""
        movable = [entry for entry in self.live if entry[2].address is None]
        last = max(movable, key=lambda entry: (entry[2].last_use, entry[2].number), default=None)
        victim = one if last is None or last[2].last_use <= one.last_use else last[2]
        self.spills.append(Spill(victim, victim.bytes, one.line))
        if victim is one:
            return False
        self.live = [entry for entry in self.live if entry[2] is not victim]
        return True

    def _gap(self, one: Buffer, avoid: Sequence[Buffer]) -> int:
        taken = [(start, end) for start, end, _ in self.live]
        taken += [(b.address[1], b.address[1] + b.partition_bytes) for b in avoid if b.address is not None]
        size = one.partition_bytes
        best, best_size = -1, self.room + 1
        at = 0
        for start, end in [*sorted(taken), (self.room, self.room)]:
            begin = self._aligned(at, size)
            if begin + size <= start:
                if not self.tight:
                    return begin
                if start - at < best_size:
                    best, best_size = begin, start - at
            at = max(at, end)
        return best

    def _aligned(self, at: int, size: int) -> int:
        if size > self.block:
            return -(-at // self.align) * self.align
        if at // self.block != (at + size - 1) // self.block:
            return -(-at // self.block) * self.block
        return at


def _meet(first: Buffer, second: Buffer) -> bool:
    """Whether both are live at some instruction."""
    return first.first_use <= second.last_use and second.first_use <= first.last_use
