"""The cores of one launch: LNC2, a grid of programs, or the ranks of collectives, in one process.

Programs that run at once take turns (``baton``); what they share, and where they meet, is kept here. So every run of
a kernel gives the same values and the same order of instructions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from twintrack.errors import KernelError
from twintrack.neuroncore.emulator.baton import Baton, Stopped
from twintrack.neuroncore.emulator.core import Core
from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.memory.buffer import MemoryRegion, Owner
from twintrack.neuroncore.memory.dtypes import DType
from twintrack.neuroncore.memory.storage import Storage
from twintrack.neuroncore.memory.view import View

__all__ = ["Arrival", "Machine", "Meeting"]

_LNC = 2


class Arrival(NamedTuple):
    """A core that has come to a meeting."""

    core: Core
    ins: Instruction


@dataclass(slots=True)
class Meeting:
    """Cores that wait for each other at an instruction."""

    arrivals: dict[int, Arrival] = field(default_factory=dict)
    done: bool = False


class Machine:
    """The cores of one launch.

    Args:
        make: a core for a rank and a program's number in its grid.
        grid: programs per axis. Two in one axis are LNC2: they run at once; others run one after the other.
        ranks: copies of the grid that run at once and meet in collectives.
        ranks_per_node: of one instance, which some collectives ask for.
        lnc: cores of one rank that run at once; by the grid where ``None``.
    """

    def __init__(
        self,
        make: Callable[[int, int], Core],
        grid: tuple[int, ...],
        *,
        ranks: int = 1,
        ranks_per_node: int = 1,
        lnc: int | None = None,
    ) -> None:
        self.grid = grid
        self.ranks = ranks
        self.ranks_per_node = ranks_per_node
        self.programs = math.prod(grid)
        """Programs of one rank."""
        self.lnc = (_LNC if grid == (_LNC,) else 1) if lnc is None else lnc
        """Cores of one rank that run at once."""
        self.cores: list[Core] = []
        """By rank, then by program."""
        self._make = make
        self._shared: dict[int, list[Storage]] = {}
        self._meetings: dict[Hashable, Meeting] = {}
        self._pending: dict[Core, list[tuple[Meeting, Instruction, str]]] = {}
        self._baton: Baton | None = None

    def run(self, program: Callable[[Core], Any]) -> list[Any]:
        """Run it once per core; what each returned, in the order of ``cores``.

        Raises:
            KernelError: of the first program that failed, or for a deadlock.
        """
        run = object()
        for rank in range(self.ranks):
            owner = Owner(run)
            for number in range(self.programs):
                core = self._make(rank, number)
                core.machine = self
                core.rank = rank
                core.owner.run, core.rank_owner = run, owner
                self.cores.append(core)
        if self.ranks * self.lnc == 1:
            return [program(core) for core in self.cores]
        self._baton = Baton(len(self.cores), self.named, self._stop)

        def body(lane: int) -> Any:
            core = self.cores[lane]
            returned = program(core)
            self._finish(core)
            return returned

        return self._baton.run(body)

    def _stop(self) -> None:
        for core in self.cores:
            core.observers = (_stopper,)

    def lane(self, core: Core) -> int:
        """Its place in ``cores``."""
        return core.rank * self.programs + core.program

    def named(self, lane: int) -> str:
        """A core as messages name it."""
        rank, program = divmod(lane, self.programs)
        if self.ranks == 1:
            return f"core {program}"
        return f"rank {rank}" if self.programs == 1 else f"rank {rank} core {program}"

    # where cores meet

    def meet(
        self,
        core: Core,
        ins: Instruction,
        key: Hashable,
        members: tuple[int, ...],
        complete: Callable[[dict[int, Arrival]], None],
        *,
        soft: bool = False,
    ) -> None:
        """Wait until all members have come as often as this one to meetings of this key.

        Args:
            core: which comes.
            ins: at this instruction.
            key: names the series of meetings.
            members: lanes.
            complete: carries the exchange out, once, when the last has come; given the arrivals in order of lanes.
            soft: where it would be a deadlock, go on; the core waits when it touches an operand of the instruction,
                comes to this key again, or ends.

        Raises:
            KernelError: what ``complete`` raises.
        """
        lane = self.lane(core)
        met: dict[Hashable, int] = core.state.setdefault("meetings", {})
        met[key] = met.get(key, 0) + 1
        meeting = self._meetings.setdefault((key, met[key]), Meeting())
        meeting.arrivals[lane] = Arrival(core, ins)
        if len(meeting.arrivals) == len(members):
            del self._meetings[(key, met[key])]
            complete(dict(sorted(meeting.arrivals.items())))
            meeting.done = True
            return

        def what() -> str:
            missing = [self.named(other) for other in members if other not in meeting.arrivals]
            return f"{', '.join(missing)} in {ins.opcode}"

        if not self._wait(core, meeting, what, ins.line, soft=soft):
            self._pending.setdefault(core, []).append((meeting, ins, what()))
            if self._settle not in core.observers:
                core.observers = (self._settle, *core.observers)

    def _wait(
        self, core: Core, meeting: Meeting, what: Callable[[], str], where: str, *, soft: bool = False
    ) -> bool:
        assert self._baton is not None  # noqa: S101 - a core alone never has to wait
        return self._baton.wait(self.lane(core), lambda: meeting.done, what, where, soft=soft)

    def _settle(self, core: Core, ins: Instruction) -> None:
        """Before an instruction: wait for posted exchanges whose operands it touches, or whose pipe it uses."""
        left = []
        for meeting, posted, what in self._pending.get(core, ()):
            if meeting.done:
                continue
            if _touches(ins, posted):
                self._wait(core, meeting, partial(_posted, what, posted.line), ins.line)
            else:
                left.append((meeting, posted, what))
        self._pending[core] = left
        if not left:
            core.observers = tuple(one for one in core.observers if one != self._settle)

    def _finish(self, core: Core) -> None:
        for meeting, posted, what in self._pending.pop(core, ()):
            self._wait(core, meeting, partial(_posted, what, posted.line), posted.line)

    # memory that cores share

    def shared(
        self, core: Core, shape: tuple[int, ...], dtype: DType, make: Callable[[], Storage]
    ) -> Storage:
        """The buffer that every program's n-th allocation in ``shared_hbm`` of a rank means.

        Args:
            core: which allocates.
            shape: of the allocation.
            dtype: of its elements.
            make: makes it, for the first core that comes here.

        Raises:
            KernelError: if the cores' n-th allocations differ.
        """
        known = self._shared.setdefault(core.rank, [])
        at: int = core.state.get("shared allocations", 0)
        core.state["shared allocations"] = at + 1
        if at == len(known):
            known.append(make())
            return known[at]
        found = known[at]
        if found.buffer.shape != shape or found.buffer.dtype is not dtype:
            frame = core.author()
            raise KernelError(
                f"the same shared tensor on every core ({found.buffer!r})",
                found=f"{list(shape)} {dtype} on {self.named(self.lane(core))}",
                where=f"{frame.f_code.co_filename}:{frame.f_lineno}",
                remedy="allocate tensors in nl.shared_hbm alike on all cores, or in nl.private_hbm",
            )
        return found

    def shares(self, region: MemoryRegion) -> bool:
        """Whether a buffer in this region is one for all programs of a rank."""
        return region is MemoryRegion.shared_hbm and self.programs > 1


def _posted(what: str, line: str) -> str:
    return f"{what} (posted at {line})"


def _stopper(core: Core, ins: Instruction) -> None:
    """In place of a core's observers once another core has failed."""
    del core, ins
    raise Stopped


def _touches(ins: Instruction, posted: Instruction) -> bool:
    """Whether an instruction must wait for a posted exchange."""
    if ins.opcode == posted.opcode and ins.attributes.get("pipe_id") == posted.attributes.get("pipe_id"):
        return True
    written = {id(view.storage) for view in posted.outs if view is not None}
    sent = {id(view.storage) for view in posted.ins if view is not None}
    for view in (*ins.outs, *ins.ins):
        if view is None:
            continue
        index = view.dynamic.index if view.dynamic is not None else None
        if id(view.storage) in written or (isinstance(index, View) and id(index.storage) in written):
            return True
    return any(view is not None and id(view.storage) in sent for view in ins.outs)
