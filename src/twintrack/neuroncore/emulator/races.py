"""Accesses of the two cores of LNC2 to the same bytes of shared HBM with no meeting between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twintrack.errors import KernelError
from twintrack.neuroncore.emulator.covered import covered
from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.isa.legality.common import broken
from twintrack.neuroncore.memory.storage import Storage
from twintrack.neuroncore.memory.view import View
from twintrack.neuroncore.memory.written import Pattern, Written

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core

__all__ = ["SYNCHRONISE", "SharedRaces"]

SYNCHRONISE = frozenset(
    {
        "core_barrier",
        "sendrecv",
        # both cores of a rank come to a collective before it begins
        "all_gather",
        "all_gather_v",
        "all_reduce",
        "all_to_all",
        "all_to_all_v",
        "collective_permute",
        "collective_permute_implicit",
        "collective_permute_implicit_reduce",
        "reduce_scatter",
    }
)
"""Instructions at which the cores meet."""


class SharedRaces:
    """What each core read and wrote of shared HBM since both last met."""

    def __init__(self, cores: int) -> None:
        self._cores = cores
        self._done: list[dict[tuple[int, bool], Written]] = [{} for _ in range(cores)]
        self._lines: dict[tuple[int, int, bool], str] = {}
        self._met = [0] * cores

    def see(self, core: Core, ins: Instruction) -> None:
        """Compare with what other cores did since the last meeting."""
        mine = core.program
        if ins.opcode in SYNCHRONISE:
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
        patterns = tuple(covered(core, ins, view).patterns())
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
        did, had = ("writes" if writes else "reads"), ("writes" if wrote else "reads")
        return broken(
            ins,
            f"a core_barrier between core {other}, which {had} this part of shared HBM at {line} or later, and core "
            f"{1 - other}, which {did} it here,",
            "none",
            "call nisa.core_barrier on both cores between them, or give each core its own part",
            view,
        )
