"""Direct allocation: where the tiles of a tensor lie, as ``nki.compiler.sbuf`` and ``nki.compiler.psum`` say.

A placement is what ``buffer=`` takes. It is asked for the address of every tile by its block index. The compiler of
2.26 traced the body of an affine or sequential loop once, so what a body makes lies at one address in all iterations,
also where the kernel counts its next free address up as it goes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from inspect import signature
from typing import Any

from twintrack.neuroncore.emulator.core import Core
from twintrack.neuroncore.isa.instruction import LoopFrame
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.generation import PSUM_BANK_BYTES, PSUM_BANKS
from twintrack.nki.isa.issue import author_error
from twintrack.nki.tensor import NKIObject
from twintrack.nki.tensor_errors import as_whole

__all__ = ["Placement", "Traced", "modulo"]

Index = tuple[int, ...]
_ONCE = frozenset({"affine", "sequential"})


class Placement(NKIObject):
    """A memory, and where in it.

    Args:
        region: SBUF or PSUM.
        place: ``(idx, pdim_size, fdim_size) -> (partition, byte)``, of a block index, partitions and bytes per
            partition; in PSUM ``(bank, partition, byte in the bank)``. ``None`` leaves it to the compiler.
    """

    __slots__ = ("place", "region")

    def __init__(self, region: MemoryRegion, place: Callable[[Index, int, int], Any] | None) -> None:
        self.region = region
        self.place = place

    def __repr__(self) -> str:
        return f"nki.compiler.{self.region.value}.{'auto_alloc' if self.place is None else 'alloc'}"

    def address(self, index: Index, partitions: int, size: int) -> tuple[int, int] | None:
        """``(partition, byte in the partition)`` of a tile.

        Raises:
            KernelError: if the function gives something else, or a tile does not fit in its bank of PSUM.
        """
        if self.place is None:
            return None
        found = _placed(self.place, index, partitions, size)
        length = 2 if self.region is MemoryRegion.sbuf else 3
        if not isinstance(found, tuple) or len(found) != length:
            names = "(start_partition, byte_addr)" if length == 2 else "(bank_id, start_partition, byte_addr)"
            raise author_error(f"{names} from the allocation function", f"{found!r}", "return such a tuple")
        numbers = tuple([_whole(one, "the allocation function's address") for one in found])
        if length == 2:
            return numbers[0], numbers[1]
        bank, partition, byte = numbers
        if not 0 <= bank < PSUM_BANKS or byte < 0 or byte + size > PSUM_BANK_BYTES:
            raise author_error(
                f"a tile inside one of the {PSUM_BANKS} banks of {PSUM_BANK_BYTES} bytes",
                f"{size} bytes at bank {bank}, byte {byte}",
                "choose another bank, or smaller tiles",
            )
        return partition, bank * PSUM_BANK_BYTES + byte


def _whole(value: object, what: str) -> int:
    found = as_whole(value)
    if found is None:
        raise author_error(f"a whole number for {what}", repr(value)[:80], "divide with // in place of /")
    return found


def _tiles(given: Any) -> tuple[int, ...]:
    """Numbers of tiles, per block dimension."""
    numbers = given if isinstance(given, tuple | list) else (given,)
    sizes = tuple([_whole(one, "a number of tiles") for one in numbers])
    if any(size < 1 for size in sizes):
        raise author_error("numbers of tiles from 1", f"{sizes}", "give one per block dimension, or none")
    return sizes


def _placed(place: Callable[..., Any], index: Index, partitions: int, size: int) -> Any:
    """What an allocation function says: called by its documented names where it has them, else by position.

    Published kernels hand over ``functools.partial`` objects that take no argument by position.
    """
    named = {"idx": index, "pdim_size": partitions, "fdim_size": size}
    try:
        signature(place).bind(**named)
    except (TypeError, ValueError):
        return place(index, partitions, size)
    return place(**named)


def modulo(base: int, tiles: Any, scale: int) -> Callable[[Index], int]:
    """The documented modulo allocation along one coordinate.

    Args:
        base: of the first tile.
        tiles: physical tiles per block dimension; empty for one each.
        scale: distance of neighbours.
    """

    def address(index: Index) -> int:
        first = _whole(base, "the base of an allocation")
        sizes = _tiles(tiles) or (1,) * len(index)
        if not index:
            return first  # one tile is at the first place, however many there are
        if len(sizes) != len(index):
            raise author_error(
                f"as many numbers of tiles as the tensor has block dimensions ({len(index)})",
                f"{sizes}",
                "give one per block dimension, or none",
            )
        place: int = sum(
            (at % size) * math.prod(sizes[dim + 1 :])
            for dim, (at, size) in enumerate(zip(index, sizes, strict=True))
        )
        return first + place * scale

    return address


class Traced:
    """Addresses that bodies of loops were given when they were traced, on one core."""

    def __init__(self) -> None:
        self._loops: dict[Any, dict[int, int]] = {}
        self._calls: dict[Any, int] = {}
        self._addresses: dict[Any, tuple[int, int] | None] = {}

    def address(
        self, core: Core, index: Index, given: Callable[[], tuple[int, int] | None]
    ) -> tuple[int, int] | None:
        """The address of a tile: in a loop whose body is traced once, that of the first iteration.

        Args:
            core: whose kernel makes the tile.
            index: of its block.
            given: what the placement says now.
        """
        if all(frame.kind not in _ONCE for frame in core.loops):
            return given()
        author = core.author()
        place = (author.f_code, author.f_lasti, index)
        # one line may make several tiles in an iteration: they are told apart by their order
        call = (place, tuple(core.loops))
        turn = self._calls[call] = self._calls.get(call, 0) + 1
        key = (place, turn, self._body(core))
        if key not in self._addresses:
            self._addresses[key] = given()
        return self._addresses[key]

    def _body(self, core: Core) -> tuple[tuple[int, int], ...]:
        """Which body runs, the same in all iterations that were one when it was traced.

        Loops are told apart by their order in the body around them.
        """
        around: tuple[LoopFrame, ...] = ()
        found = []
        for frame in core.loops:
            met = self._loops.setdefault(around, {})
            order = met.setdefault(frame.loop, len(met))
            found.append((order, 0 if frame.kind in _ONCE else frame.iteration))
            around = (*around, frame)
        return tuple(found)
