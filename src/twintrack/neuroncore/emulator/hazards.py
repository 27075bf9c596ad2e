"""``--check all``: accesses to the same memory that nothing orders.

The compiler may reorder what does not depend on each other. It sees, on one core, which static access patterns overlap
and keeps their order. It cannot see two things:

- *dynamic addresses*: an access to HBM at an address known only at run time, and any other access to the same bytes,
  one of them a write. They are ordered if data lead from one to the other (a tile that one writes and the other needs,
  through any number of instructions), or by edges: ``depends_on``, a schedule, a ``no_reorder`` block around both.
- *HBM shared by the two cores of LNC2*: an access by each core to the same bytes, one of them a write, with no
  ``core_barrier`` or ``sendrecv`` between them.

``depends_on`` is called on an instruction that was already issued, so the first kind is judged when the run has ended:
until then a few numbers are kept per instruction, and nothing more where no address was dynamic. What came before an
instruction is held as the bits of one integer. Order through a tile counts for the whole tile: a hazard may be missed,
none is invented.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from twintrack.errors import KernelError
from twintrack.neuroncore.emulator.covered import Covered, covered, overlap
from twintrack.neuroncore.emulator.races import SYNCHRONISE, SharedRaces
from twintrack.neuroncore.isa.instruction import Engine, Instruction, Register
from twintrack.neuroncore.isa.legality.common import name_of
from twintrack.neuroncore.memory.view import View

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core

__all__ = ["Hazards"]

_ENGINES: Mapping[Engine, int] = MappingProxyType({one: -1 - at for at, one in enumerate(Engine)})
"""Numbers of what engines hold between instructions, beside the identities of buffers, which are positive."""


def _register(one: Register) -> int:
    return -1 - len(_ENGINES) - one.number


class Hazards:
    """The search over all cores of one launch; one object is the observer of each of them.

    Args:
        cores: programs that run at once.
    """

    def __init__(self, cores: int = 1) -> None:
        self._per_core = [_Order() for _ in range(cores)]
        self._shared = SharedRaces(cores) if cores > 1 else None

    def __call__(self, core: Core, ins: Instruction) -> None:
        """Look at an instruction before it is carried out.

        Raises:
            KernelError: if it touches shared HBM that another core touched without a barrier between them.
        """
        if self._shared is not None:
            self._shared.see(core, ins)
        self._per_core[core.program % len(self._per_core)].see(core, ins)

    def finish(self) -> None:
        """Judge accesses at dynamic addresses, when all edges between instructions are known.

        Raises:
            KernelError: for the first access that conflicts with an earlier one that nothing orders before it.
        """
        for one in self._per_core:
            one.judge()


class _Touch(NamedTuple):
    """An access to HBM."""

    buffer: int
    """Identity of the buffer."""
    bytes: Covered
    writes: bool
    dynamic: bool
    operand: str
    shown: str
    """Operand and buffer, as messages name them; of dynamic accesses only."""


class _Seen(NamedTuple):
    """What is kept of an instruction until the end."""

    number: int
    opcode: str
    code: Any
    lineno: int
    after: list[int]
    reads: tuple[int, ...]
    """Tiles, registers, accumulators: by identity or number."""
    writes: tuple[int, ...]
    touches: tuple[_Touch, ...]

    @property
    def line(self) -> str:
        return f"{self.code.co_filename}:{self.lineno}"


class _Past(NamedTuple):
    """An earlier access to HBM, its instruction, and its bit among what came before another."""

    bit: int
    touch: _Touch
    seen: _Seen


class _Order:
    """The instructions of one core, and what came before what."""

    def __init__(self) -> None:
        self._seen: list[_Seen] = []
        self._dynamic: set[int] = set()
        """Buffers in HBM that were touched at a dynamic address."""

    def see(self, core: Core, ins: Instruction) -> None:
        """Keep what the judgement needs."""
        tiles: tuple[list[int], list[int]] = ([], [])
        touches: list[_Touch] = []
        for which, views in enumerate((ins.ins, ins.outs)):
            for view in views:
                if view is None:
                    continue
                buffer = view.storage.buffer
                if view.dynamic is not None:
                    index = view.dynamic.index
                    tiles[0].append(
                        _register(index) if isinstance(index, Register) else id(index.storage.buffer)
                    )
                if buffer.on_chip:
                    tiles[which].append(id(buffer))
                else:
                    touches.append(self._touch(core, ins, view, writes=which == 1))
        for register in ins.registers:
            tiles[1].append(_register(register))
        if (
            ins.attributes.get("reduce_cmd") is not None
        ):  # the engine's accumulators lead from one to the next
            tiles[1].append(_ENGINES[ins.engine])
        self._seen.append(
            _Seen(
                ins.number,
                ins.opcode,
                ins.code,
                ins.lineno,
                ins.after,
                tuple(tiles[0]),
                tuple(tiles[1]),
                tuple(touches),
            )
        )

    def _touch(self, core: Core, ins: Instruction, view: View, *, writes: bool) -> _Touch:
        buffer = view.storage.buffer
        operand = name_of(ins, view)
        if view.dynamic is None:
            return _Touch(id(buffer), covered(core, ins, view), writes, False, operand, repr(buffer))
        self._dynamic.add(id(buffer))
        return _Touch(id(buffer), covered(core, ins, view), writes, True, operand, repr(buffer))

    def judge(self) -> None:
        """Follow the instructions in order; see ``Hazards.finish``."""
        if self._dynamic:
            _Judgement(self._seen, self._dynamic).run()


class _Judgement:
    """One pass over the instructions of a core, with what came before each as the bits of an integer.

    Args:
        seen: the instructions.
        dynamic: buffers touched at a dynamic address. Through others data may lead, as through tiles.
    """

    def __init__(self, seen: list[_Seen], dynamic: set[int]) -> None:
        self._seen = seen
        self._dynamic = dynamic
        self._tiles: dict[int, int] = {}
        """Per tile: what came before its last write, and that write."""
        self._readers: dict[int, int] = {}
        """Per tile: what came before the reads since, and those reads."""
        self._known: dict[int, int] = {}
        """Per instruction: what came before it, and itself."""
        self._floor = 0
        """What came before the last meeting of cores, which all that follows waits for."""
        self._past: dict[int, list[_Past]] = {}
        self._bits = 0

    def run(self) -> None:
        """Raise at the first conflict that nothing orders."""
        for seen in self._seen:
            static = [one for one in seen.touches if one.buffer not in self._dynamic]
            reads = (*seen.reads, *[one.buffer for one in static if not one.writes])
            writes = (*seen.writes, *[one.buffer for one in static if one.writes])
            known = self._before(seen, reads, writes)
            own = []
            for touch in seen.touches:
                if touch.buffer in self._dynamic:
                    known |= self._against(seen, touch, known)
                    own.append(_Past(1 << self._bits, touch, seen))
                    self._bits += 1
            for past in own:
                known |= past.bit
                self._past.setdefault(past.touch.buffer, []).append(past)
            self._remember(seen, reads, writes, known)

    def _before(self, seen: _Seen, reads: tuple[int, ...], writes: tuple[int, ...]) -> int:
        if seen.opcode in SYNCHRONISE:
            self._floor = (1 << self._bits) - 1
        known = self._floor
        for tile in reads:
            known |= self._tiles.get(tile, 0)
        for tile in writes:
            known |= self._tiles.get(tile, 0) | self._readers.get(tile, 0)
        for number in seen.after:
            known |= self._known.get(number, 0)
        return known

    def _remember(self, seen: _Seen, reads: tuple[int, ...], writes: tuple[int, ...], known: int) -> None:
        for tile in reads:
            self._readers[tile] = self._readers.get(tile, 0) | known
        for tile in writes:
            self._tiles[tile] = self._tiles.get(tile, 0) | known
        if known:
            self._known[seen.number] = known

    def _against(self, seen: _Seen, touch: _Touch, known: int) -> int:
        """What the compiler itself orders before this access: the conflicting ones of static accesses."""
        found = 0
        for past in self._past.get(touch.buffer, ()):
            if known & past.bit or not (touch.writes or past.touch.writes):
                continue
            if not overlap(touch.bytes, past.touch.bytes):
                continue
            if touch.dynamic or past.touch.dynamic:
                raise _unordered(seen, touch, past)
            found |= past.bit | self._known.get(past.seen.number, 0)
        return found


def _unordered(seen: _Seen, now: _Touch, past: _Past) -> KernelError:
    did, had = ("writes" if now.writes else "reads"), ("wrote" if past.touch.writes else "read")
    which = "this" if now.dynamic else "that"
    return KernelError(
        f"an order between nki.isa.{seen.opcode}, which {did} {now.operand}, and nki.isa.{past.seen.opcode} at "
        f"{past.seen.line}, which {had} the same bytes of {now.shown}",
        found=f"nothing that orders them, as {which} one's address is known only at run time",
        where=seen.line,
        remedy="call .depends_on(...) on this one, or put both in `with nl.no_reorder():`",
    )
