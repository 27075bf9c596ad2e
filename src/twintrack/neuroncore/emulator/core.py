"""One NeuronCore: takes instructions one after the other, checks them, carries them out, keeps what is asked for.

``issue`` is the only way in. Values are computed by the handlers in ``ops``, which reach memory through ``access``;
without values an instruction is checked and what it writes counts as written.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from twintrack.neuroncore.emulator import access, valueless
from twintrack.neuroncore.emulator.ops import HANDLERS, VALUELESS
from twintrack.neuroncore.emulator.shortened import Shortened
from twintrack.neuroncore.isa.instruction import Instruction, LoopFrame
from twintrack.neuroncore.isa.legality import LEGALITY
from twintrack.neuroncore.isa.legality.common import broken
from twintrack.neuroncore.memory.buffer import Buffer, MemoryRegion, Owner
from twintrack.neuroncore.memory.dtypes import DType
from twintrack.neuroncore.memory.generation import Generation
from twintrack.neuroncore.memory.room import require_room
from twintrack.neuroncore.memory.storage import Storage
from twintrack.neuroncore.memory.view import Cut, Cuts, Forms, View

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.machine import Machine

__all__ = ["MOST_ITERATIONS", "Checks", "Core"]

Array = npt.NDArray[Any]
Observer = Callable[["Core", Instruction], None]
_MOST_REMEMBERED = 8192
MOST_ITERATIONS = 100_000
"""Iterations after which a loop on the device counts as one that never ends; our choice, the device has no limit."""


class Checks(StrEnum):
    """How much is checked."""

    OFF = "off"
    """Shapes only where an instruction needs them; for benchmarks."""
    FAST = "fast"
    """Everything but what costs a second look at every access or value."""
    ALL = "all"
    """Everything, also accesses that nothing orders and values outside the valid range of a function."""


class Core:
    """One NeuronCore during one run of a kernel.

    Args:
        generation: whose rules and sizes hold.
        values: whether values are computed; without them only shapes are known.
        checks: how much is checked.
        precise: whether narrow floats are rounded (``NKI_PRECISE_FP``).
        inside: prefixes of module names that are not the kernel author's code.
        sink: is given every instruction after it was carried out, as by ``isa.stream``.
        observers: see every instruction before it is carried out, as the search for hazards does.
        trip_counts: iterations of loops whose bound is not known without values, by ``file:line``; ``""`` for all.
        most_iterations: after which a loop on the device counts as one that never ends.
        strict: whether what a run can do and the compiler cannot is refused.
        program: index of this core in the grid, for ``program_id``.
    """

    def __init__(
        self,
        generation: Generation,
        *,
        values: bool = True,
        checks: Checks = Checks.FAST,
        precise: bool = True,
        inside: tuple[str, ...] = ("twintrack.neuroncore", "twintrack.nki", "numpy."),
        sink: Callable[[Instruction], None] | None = None,
        observers: Sequence[Observer] = (),
        trip_counts: Mapping[str, int] | None = None,
        most_iterations: int = MOST_ITERATIONS,
        strict: bool = False,
        program: int = 0,
    ) -> None:
        self.generation = generation
        self.values = values
        self.checks = checks
        self.checked = checks is not Checks.OFF
        self.searched = checks is Checks.ALL
        self.precise = precise
        self.sink = sink
        self.observers = tuple(observers)
        self.trip_counts = trip_counts or {}
        self.trips_taken: dict[str, str] = {}
        """Loops whose bound no value told, by line, and the key of ``trip_counts`` that did."""
        self.most_iterations = most_iterations
        self.strict = strict
        self.program = program
        self.rank = 0
        """Among the ranks that run at once; set by the machine."""
        self.shortened: Shortened | None = None
        """Where not all iterations of outermost affine loops are to be traced."""
        self.loops: list[LoopFrame] = []
        """Every NKI loop that is running, the outermost first."""
        self.started = 0
        """Loops started."""
        self.buffers: list[Buffer] = []
        """Every buffer made on this core, in order."""
        self._holding: dict[MemoryRegion, dict[int, Storage]] = {}
        """Per memory the buffers placed by address of which something was written and not yet destroyed, by ``id``."""
        self.state: dict[str, Any] = {}
        """What engines hold between instructions: accumulators, random states; by name, for the handlers."""
        self.count = 0
        """Instructions issued."""
        self.ndim = 0
        """Axes of the launch grid."""
        self.owner = Owner(object())
        """Of what this core alone can use."""
        self.rank_owner = self.owner
        """Of what all cores of its rank can use; set by the machine."""
        self.machine: Machine | None = None
        """The launch that it belongs to, with the other cores."""
        self._inside = inside
        self._ours: dict[str, bool] = {}
        self._tiles: dict[Any, Cut] = {}
        self._forms = Forms()
        self._kinds: dict[Any, int] = {}
        self._next_kind = 0
        self.registers_made = 0
        """Registers of the sequencers so far."""

    # what the kernel makes

    def allocate(
        self,
        shape: tuple[int, ...],
        dtype: DType,
        region: MemoryRegion,
        *,
        name: str = "",
        address: tuple[int, int] | None = None,
    ) -> Storage:
        """A new buffer, nothing written to it.

        Args:
            shape: positive sizes; dimension 0 is partitions on chip.
            dtype: of its elements.
            region: where.
            name: the author's.
            address: ``(partition, byte in the partition)`` where the author places it.

        Raises:
            KernelError: if one tile is larger than the memory's partition, or the address is outside.
        """
        frame = self.author()
        buffer = Buffer(
            len(self.buffers), region, dtype, shape, name, frame.f_code, frame.f_lineno, address, "tile"
        )
        if buffer.on_chip and self.checked:
            require_room(buffer, self.generation)
        if self.machine is not None and self.machine.shares(region):
            buffer.owner = self.rank_owner
            storage = self.machine.shared(self, shape, dtype, lambda: self._empty(buffer))
        else:
            buffer.owner = self.owner
            storage = self._empty(buffer)
        self.buffers.append(storage.buffer)
        return storage

    def holding(self, storage: Storage) -> dict[int, Storage]:
        """Buffers in one memory that were placed by address and hold something, by ``id``; this one now does."""
        found = self._holding.setdefault(storage.buffer.region, {})
        found[id(storage)] = storage
        return found

    def lay(self, tile: View) -> None:
        """Let a whole tile share what is remembered of tiles of its form."""
        buffer = tile.storage.buffer
        form = (buffer.region, tile.dtype, tile.shape, buffer.address)
        cut = self._tiles.get(form)
        if cut is None:
            if len(self._tiles) >= _MOST_REMEMBERED:
                self._tiles.clear()
            cut = self._tiles[form] = Cuts(self._forms).of(tile)
        tile.shape, tile.strides, tile.offset, tile._form, tile._cuts = cut

    def _empty(self, buffer: Buffer) -> Storage:
        return Storage.empty(buffer, values=self.values, precise=self.precise)

    def adopt(
        self,
        values: Array | None,
        shape: tuple[int, ...],
        dtype: DType,
        region: MemoryRegion,
        name: str,
        origin: str,
    ) -> Storage:
        """A buffer over an argument's or a constant's own memory; everything counts as written.

        Args:
            values: C-contiguous, of ``dtype.stored``; ``None`` where values are not computed.
        """
        buffer = Buffer(len(self.buffers), region, dtype, shape, name, None, 0, None, origin)
        buffer.owner = self.rank_owner
        self.buffers.append(buffer)
        if values is None or not self.values:
            storage = Storage.empty(buffer, values=False, precise=self.precise)
            storage.written.mark_all()
            return storage
        return Storage.of(buffer, values, precise=self.precise)

    def new_register(self) -> tuple[int, str]:
        """Number of a new register of the sequencers, and the author's ``file:line``."""
        self.registers_made += 1
        return self.registers_made - 1, self.author_line()

    def author_line(self) -> str:
        """``file:line`` of the kernel author's code that is running."""
        frame = self.author()
        return f"{frame.f_code.co_filename}:{frame.f_lineno}"

    # what the kernel does

    def author(self, inside: int = 0) -> FrameType:
        """The innermost frame of the kernel author's code.

        Args:
            inside: callers of the caller that are known to be no code of the author.
        """
        frame: FrameType | None = sys._getframe(1 + inside)
        ours = self._ours
        outermost = frame
        while frame is not None:
            module = frame.f_globals.get("__name__", "")
            mine = ours.get(module)
            if mine is None:
                mine = ours[module] = str(module).startswith(self._inside)
            if not mine:
                return frame
            outermost = frame
            frame = frame.f_back
        assert outermost is not None  # noqa: S101 - a call always has a frame
        return outermost

    def issue(self, ins: Instruction, inside: int = 0) -> Instruction:
        """Check an instruction and carry it out.

        Args:
            ins: the instruction.
            inside: callers that are known to be no code of the author, from the innermost.

        Raises:
            KernelError: if it breaks a rule, reads what was never written, or leaves a buffer.
        """
        ins.number = self.count
        self.count += 1
        frame = self.author(inside + 1)
        ins.code = frame.f_code
        ins.lineno = frame.f_lineno
        if self.loops:
            ins.loop = tuple(self.loops)
        views = ins.outs + ins.ins
        number = ins.number
        forms: list[Any] = [ins.opcode, ins.engine]  # the opcode says how many of the operands are written
        for view in views:
            if view is None:
                forms.append(None)
                continue
            forms.append(view._form or view._signature or view.signature)
            buffer = view.storage.buffer
            if buffer.first_use < 0:
                buffer.first_use = number
            buffer.last_use = number
            if view.dynamic is not None and isinstance(view.dynamic.index, View):
                view.dynamic.index.storage.buffer.last_use = number
        if self.checked:
            kind = self._kinds.get((*forms, *ins.attributes.values()))
            ins.kind = self._new_kind(ins, views, forms) if kind is None else kind
        for observer in self.observers:
            observer(self, ins)
        if self.values or ins.opcode in VALUELESS:
            HANDLERS[ins.opcode](self, ins)
        else:
            valueless.touch(self, ins)
        if self.sink is not None:
            self.sink(ins)
        return ins

    def _new_kind(self, ins: Instruction, views: tuple[View | None, ...], forms: list[Any]) -> int:
        """The number of instructions like this one, which is met first: its rules are looked at once."""
        self._require_own(ins, views)
        LEGALITY[ins.opcode](ins, self.generation)
        if len(self._kinds) >= _MOST_REMEMBERED:
            self._kinds.clear()
        kind = self._kinds[(*forms, *ins.attributes.values())] = self._next_kind
        self._next_kind += 1
        return kind

    def _require_own(self, ins: Instruction, views: tuple[View | None, ...]) -> None:
        """Operands are of this run and core; as a view's signature holds its owner, each kind is looked at once."""
        allowed = (None, self.owner, self.rank_owner)
        for view in views:
            for one in () if view is None else (view, None if view.dynamic is None else view.dynamic.index):
                owner = one.storage.buffer.owner if isinstance(one, View) else None
                if owner not in allowed:
                    assert owner is not None  # noqa: S101 - None is allowed
                    other = "core" if owner.run is self.owner.run else "run"
                    raise broken(
                        ins,
                        "tensors that this run of the kernel made or was given on this core",
                        f"one of another {other}",
                        "return it and pass it as an argument"
                        if other == "run"
                        else "send it with nisa.sendrecv, or share it in nl.shared_hbm",
                        one,
                    )

    # what handlers use

    def read(self, ins: Instruction, view: View) -> Array:
        """An operand's elements as they are held, in the view's shape; see ``access.read``."""
        if view.dynamic is None:
            storage = view.storage
            written = storage.written
            if self.checked and not written.whole:
                access.require_written(ins, view)
            return view.array()
        return access.read_dynamic(self, ins, view)

    def read32(self, ins: Instruction, view: View) -> npt.NDArray[np.float32]:
        """An operand's elements as float32."""
        return access.single(self.read(ins, view), view.dtype)

    def write(self, ins: Instruction, view: View, values: Array) -> None:
        """Round results to the destination's type and write them; see ``access.write``."""
        access.write(self, ins, view, values)

    def wrote(self, view: View) -> None:
        """An operand was written in place, through ``view.array()``."""
        access.wrote(self, view)
