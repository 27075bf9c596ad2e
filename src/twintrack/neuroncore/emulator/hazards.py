"""``--check all``: accesses to the same memory that nothing orders.

The compiler orders instructions whose static access patterns overlap, on one core. It cannot see two things:

- *dynamic addresses*: an access to HBM at an address known only at run time, and any other access to the same bytes,
  one of them a write. They are ordered if one reaches the other through data (a tile that one writes and the other
  needs), through the program order of one compute engine, through ``depends_on``, or through a ``no_reorder`` region
  that holds both.
- *HBM shared by the two cores of LNC2*: an access by each core to the same bytes, one of them a write, with no
  ``core_barrier`` or ``sendrecv`` between them.

Which accesses came before an instruction is kept as the bits of an integer per buffer and per engine, so that the
search costs a few operations per instruction. Order through a buffer counts for the whole buffer: a hazard may be
missed, none is invented.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from twintrack.errors import KernelError
from twintrack.neuroncore.emulator import access
from twintrack.neuroncore.isa.instruction import Engine, Instruction, Register
from twintrack.neuroncore.isa.legality.common import broken, name_of
from twintrack.neuroncore.memory.storage import Storage
from twintrack.neuroncore.memory.view import View
from twintrack.neuroncore.memory.written import Pattern, Written

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core

__all__ = ["Hazards"]

_SYNCHRONISE = frozenset({"core_barrier", "sendrecv"})


class _Past(NamedTuple):
    """An earlier access to HBM."""

    bit: int
    patterns: tuple[Pattern, ...]
    writes: bool
    dynamic: bool
    line: str
    operand: str


class Hazards:
    """The search over all cores of one launch; one object is the observer of each of them.

    Args:
        cores: programs that run at once.
    """

    def __init__(self, cores: int = 1) -> None:
        self._per_core = [_Order() for _ in range(cores)]
        self._shared = _SharedHbm(cores) if cores > 1 else None

    def __call__(self, core: Core, ins: Instruction) -> None:
        """Look at an instruction before it is carried out.

        Raises:
            KernelError: if an access of it conflicts with an earlier one that nothing orders before it.
        """
        if self._shared is not None:
            self._shared.see(core, ins)
        self._per_core[core.program % len(self._per_core)].see(core, ins)


class _Order:
    """What happened before what on one core, as far as accesses to HBM go."""

    def __init__(self) -> None:
        self._count = 0
        self._buffers: dict[int, int] = {}
        self._engines: dict[Engine, int] = {}
        self._instructions: dict[int, int] = {}
        self._region = 0
        self._past: dict[int, list[_Past]] = {}
        self._dynamic: dict[int, list[_Past]] = {}

    def see(self, core: Core, ins: Instruction) -> None:
        known = 0
        touched: list[int] = []
        found: list[tuple[int, _Past]] = []
        for views, writes in ((ins.outs, True), (ins.ins, False)):
            for view in views:
                if view is None:
                    continue
                buffer = id(view.storage.buffer)
                touched.append(buffer)
                if view.storage.buffer.on_chip:
                    known |= self._buffers.get(buffer, 0)
                if view.dynamic is not None and isinstance(view.dynamic.index, View):
                    index = id(view.dynamic.index.storage.buffer)
                    touched.append(index)
                    known |= self._buffers.get(index, 0)
                if not view.storage.buffer.on_chip:
                    found.append((buffer, self._access(core, ins, view, writes=writes)))
        ordered = bool(core.state.get("no_reorder"))
        if ordered:
            known |= self._region
        if ins.engine is not Engine.DMA:
            known |= self._engines.get(ins.engine, 0)
        for number in ins.after:
            known |= self._instructions.get(number, 0)
        known |= self._static(found)
        for buffer, past in found:
            self._judge(ins, buffer, past, known)
        self._remember(ins, found, touched, known, ordered=ordered)

    def _access(self, core: Core, ins: Instruction, view: View, *, writes: bool) -> _Past:
        bit = 1 << self._count
        self._count += 1
        dynamic = view.dynamic is not None
        return _Past(bit, _patterns(core, ins, view), writes, dynamic, ins.line, name_of(ins, view))

    def _static(self, found: list[tuple[int, _Past]]) -> int:
        """What the compiler itself orders before static accesses: the conflicting static ones."""
        known = 0
        for buffer, now in found:
            if now.dynamic:
                continue
            for past in self._past.get(buffer, ()):
                if (now.writes or past.writes) and not past.dynamic and _overlap(now.patterns, past.patterns):
                    known |= past.bit
        return known

    def _judge(self, ins: Instruction, buffer: int, now: _Past, known: int) -> None:
        others = self._past.get(buffer, ()) if now.dynamic else self._dynamic.get(buffer, ())
        for past in others:
            if known & past.bit or not (now.writes or past.writes):
                continue
            if _overlap(now.patterns, past.patterns):
                did = "writes" if now.writes else "reads"
                had = "written" if past.writes else "read"
                raise broken(
                    ins,
                    f"an order between accesses to the same bytes of HBM ({now.operand} {did} them)",
                    f"that nothing orders this after they were {had} by {past.operand} at {past.line}, as the "
                    "address of one is known only at run time",
                    "add .depends_on(...) or put both in `with nl.no_reorder():`",
                )

    def _remember(
        self,
        ins: Instruction,
        found: list[tuple[int, _Past]],
        touched: list[int],
        known: int,
        *,
        ordered: bool,
    ) -> None:
        for buffer, past in found:
            known |= past.bit
            self._past.setdefault(buffer, []).append(past)
            if past.dynamic:
                self._dynamic.setdefault(buffer, []).append(past)
        for buffer in touched:
            self._buffers[buffer] = self._buffers.get(buffer, 0) | known
        if ins.engine is not Engine.DMA:
            self._engines[ins.engine] = self._engines.get(ins.engine, 0) | known
        if known:
            self._instructions[ins.number] = known
        self._region = self._region | known if ordered else 0


def _patterns(core: Core, ins: Instruction, view: View) -> tuple[Pattern, ...]:
    """Bytes that an access covers now: one pattern, or one per gathered row; all of the buffer without values."""
    dynamic = view.dynamic
    if dynamic is None:
        return (view.pattern(),)
    whole: Pattern = (0, (), view.storage.buffer.bytes)
    if not core.values:
        return (whole,)
    if dynamic.kind == "scalar":
        if isinstance(dynamic.index, Register) and dynamic.index.value is None:
            return (whole,)
        static = access.resolve(core, ins, view, skip=True)
        return () if static is None else (static.pattern(),)
    indices = core.read(ins, dynamic.index).reshape(-1)[: view.shape[0]].astype(np.int64)
    size = view.dtype.bytes
    span = sum((count - 1) * step for step, count in zip(view.strides[1:], view.shape[1:], strict=True)) + 1
    return tuple(
        ((view.offset + int(row) * dynamic.stride) * size, (), span * size)
        for row in indices
        if 0 <= row < dynamic.limit
    )


def _bounds(pattern: Pattern) -> tuple[int, int]:
    start, outer, run = pattern
    return start, start + run + sum((count - 1) * step for step, count in outer)


def _overlap(first: tuple[Pattern, ...], second: tuple[Pattern, ...]) -> bool:
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


class _SharedHbm:
    """What each core read and wrote of shared HBM since both last met."""

    def __init__(self, cores: int) -> None:
        self._cores = cores
        self._done: list[dict[tuple[int, bool], Written]] = [{} for _ in range(cores)]
        self._lines: dict[tuple[int, int, bool], str] = {}
        self._met = [0] * cores

    def see(self, core: Core, ins: Instruction) -> None:
        mine = core.program
        if ins.opcode in _SYNCHRONISE:
            self._met[mine] += 1
            if len(set(self._met)) == 1:
                self._done = [{} for _ in range(self._cores)]
                self._lines.clear()
            return
        for views, writes in ((ins.outs, True), (ins.ins, False)):
            for view in views:
                if (
                    view is not None
                    and core.machine is not None
                    and core.machine.shares(view.storage.buffer.region)
                ):
                    self._one(core, ins, view, writes=writes)

    def _one(self, core: Core, ins: Instruction, view: View, *, writes: bool) -> None:
        mine, storage = core.program, view.storage
        patterns = _patterns(core, ins, view)
        for other in range(self._cores):
            if other != mine:
                self._against(ins, view, storage, other, patterns, writes=writes)
        key = (id(storage.buffer), writes)
        done = self._done[mine].get(key)
        if done is None:
            done = self._done[mine][key] = Written(storage.buffer.bytes)
            self._lines[(mine, *key)] = ins.line
        for pattern in patterns:
            done.mark(pattern)

    def _against(
        self,
        ins: Instruction,
        view: View,
        storage: Storage,
        other: int,
        patterns: tuple[Pattern, ...],
        *,
        writes: bool,
    ) -> None:
        for wrote in (True, False) if writes else (True,):
            key = (id(storage.buffer), wrote)
            theirs = self._done[other].get(key)
            if theirs is not None and any(theirs.touches(pattern) for pattern in patterns):
                raise self._race(ins, view, other, self._lines[(other, *key)], wrote=wrote, writes=writes)

    def _race(
        self, ins: Instruction, view: View, other: int, line: str, *, wrote: bool, writes: bool
    ) -> KernelError:
        did, had = "write" if writes else "read", "writes" if wrote else "reads"
        return broken(
            ins,
            f"a core_barrier between this {did} of shared HBM and what core {other} {had} of it",
            f"none since core {other} first {had} the same bytes at {line}",
            "call nisa.core_barrier on both cores between them, or give each core its own part",
            view,
        )
