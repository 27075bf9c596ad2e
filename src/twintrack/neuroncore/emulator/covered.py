"""Which bytes an access covers at the moment when it happens, and whether two accesses meet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twintrack.neuroncore.emulator import dynamic as addresses
from twintrack.neuroncore.isa.instruction import Instruction, Register
from twintrack.neuroncore.memory.view import View
from twintrack.neuroncore.memory.written import Pattern, Written

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core

__all__ = ["covered", "overlap"]


def covered(core: Core, ins: Instruction, view: View) -> tuple[Pattern, ...]:
    """Bytes that a dynamic access covers: one pattern, or one per gathered row; all of the buffer without values."""
    dynamic = view.dynamic
    if dynamic is None:
        return (view.pattern(),)
    whole: Pattern = (0, (), view.storage.buffer.bytes)
    if not core.values:
        return (whole,)
    if dynamic.kind == "scalar":
        if isinstance(dynamic.index, Register) and dynamic.index.value is None:
            return (whole,)
        static = addresses.resolve(core, ins, view, skip=True)
        return () if static is None else (static.pattern(),)
    if dynamic.kind != "vector":
        return (whole,)
    starts, (_, outer, run), good = addresses.rows(core, ins, view, skip=True)
    size = view.dtype.bytes
    return tuple((int(start) * size, outer, run) for start in np.unique(starts[good]))


def _bounds(pattern: Pattern) -> tuple[int, int]:
    start, outer, run = pattern
    spans = [(count - 1) * step for step, count in outer]
    return start + sum(s for s in spans if s < 0), start + run + sum(s for s in spans if s > 0)


def overlap(first: tuple[Pattern, ...], second: tuple[Pattern, ...]) -> bool:
    """Whether any bytes are in both; exact."""
    for a in first:
        low, high = _bounds(a)
        for b in second:
            begin, end = _bounds(b)
            if low >= end or begin >= high:
                continue
            if not a[1] and not b[1]:
                return True
            mask = Written(max(high, end))
            mask.mark(a)
            if mask.touches(b):
                return True
    return False
