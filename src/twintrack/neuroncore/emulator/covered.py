"""Which bytes an access covers at the moment when it happens, and whether two accesses meet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from twintrack.neuroncore.emulator import dynamic as addresses
from twintrack.neuroncore.isa.instruction import Instruction, Register
from twintrack.neuroncore.memory.view import View
from twintrack.neuroncore.memory.written import Pattern, Written

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core

__all__ = ["Covered", "covered", "overlap"]


class Covered(NamedTuple):
    """Bytes of a buffer: the same pattern from each of several first bytes, in rising order."""

    starts: npt.NDArray[np.int64]
    outer: tuple[tuple[int, int], ...]
    run: int

    def patterns(self) -> Iterator[Pattern]:
        """One pattern per first byte."""
        for start in self.starts:
            yield int(start), self.outer, self.run

    @property
    def below(self) -> int:
        """Bytes before a first byte that the pattern reaches."""
        return -sum(min(0, (count - 1) * step) for step, count in self.outer)

    @property
    def above(self) -> int:
        """Bytes from a first byte to the end of the pattern."""
        return self.run + sum(max(0, (count - 1) * step) for step, count in self.outer)


def _one(pattern: Pattern) -> Covered:
    return Covered(np.array([pattern[0]], np.int64), pattern[1], pattern[2])


def covered(core: Core, ins: Instruction, view: View) -> Covered:
    """Bytes that an access covers now; all of the buffer where an address is not known without values."""
    dynamic = view.dynamic
    if dynamic is None:
        return _one(view.pattern())
    whole = _one((0, (), view.storage.buffer.bytes))
    if not core.values or dynamic.kind not in ("scalar", "vector"):
        return whole
    if dynamic.kind == "scalar":
        if isinstance(dynamic.index, Register) and dynamic.index.value is None:
            return whole
        static = addresses.resolve(core, ins, view, skip=True)
        return Covered(np.empty(0, np.int64), (), 1) if static is None else _one(static.pattern())
    starts, (_, outer, run), good = addresses.rows(core, ins, view, skip=True)
    return Covered(np.unique(starts[good]) * view.dtype.bytes, outer, run)


def overlap(first: Covered, second: Covered) -> bool:
    """Whether any byte is in both; exact."""
    if not len(first.starts) or not len(second.starts):
        return False
    low, high = first.starts - first.below, first.starts + first.above
    begins, ends = second.starts - second.below, second.starts + second.above
    if low[0] >= ends[-1] or begins[0] >= high[-1]:
        return False
    at = np.searchsorted(ends, low, side="right")  # the first of the others that ends after each begins
    near = at < len(ends)
    near[near] = begins[at[near]] < high[near]
    if not near.any() or (not first.outer and not second.outer):
        return bool(near.any())
    mask = Written(int(max(high[-1], ends[-1])))
    for start, keep in zip(first.starts, near, strict=True):
        if keep:
            mask.mark((int(start), first.outer, first.run))
    return any(mask.touches(pattern) for pattern in second.patterns())
