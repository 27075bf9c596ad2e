"""What the model keeps of a run: per instruction its engine, its work, and which regions it reads and writes.

Fed with the instructions of one core as they are issued (a core's sink), it holds no elements and little per
instruction: regions are numbers, works are shared between instructions of one signature.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from types import CodeType
from typing import Any, NamedTuple, TypeVar

from twintrack.neuroncore.isa.instruction import Engine, Instruction
from twintrack.neuroncore.memory.buffer import Buffer
from twintrack.neuroncore.memory.view import View
from twintrack.neuroncore.timing.cost import Work, work_of
from twintrack.neuroncore.timing.dma import Transfer, transfer_of
from twintrack.neuroncore.timing.parameters import Parameters

__all__ = ["ENGINES", "Box", "Step", "Trace"]

ENGINES = ("tensor", "vector", "scalar", "gpsimd", "sync")
"""Engines with an in-order queue; DMAs have their own."""
_DMA = -1
_NUMBER = {Engine(name): at for at, name in enumerate(ENGINES)}
_PIPES = 1 << 32
Result = TypeVar("Result")
_record = tuple.__new__
"""Makes a named tuple of a tuple without naming every field: there are some per instruction."""
_SYNCHRONISE = frozenset({"core_barrier", "sendrecv"})


class Box(NamedTuple):
    """Where a view lies in its buffer.

    Attributes:
        rows: first and one past the last row (partitions on chip; rows of ``stride`` bytes in HBM).
        columns: first and one past the last byte in a row.
        stride: bytes of a row in HBM; 0 on chip.
        bytes: of the view's elements, without what lies between them.
    """

    rows: tuple[int, int]
    columns: tuple[int, int]
    stride: int
    bytes: int


class Step(NamedTuple):
    """One instruction.

    Attributes:
        engine: position in ``ENGINES``; -1 for a DMA.
        work: of a compute engine, or the transfer of a DMA.
        reads: numbers of regions that it reads.
        writes: numbers of regions that it writes.
        opcode: of the instruction.
        line: position in ``Trace.lines``.
        number: in the core's order.
        after: instructions that it waits for by ``depends_on``.
        queue: which engine triggers a DMA, where the author says so.
        meets: barrier or exchange that it takes part in, by a number that both cores give it; 0 for none.
        loop: position in the loops around it.
    """

    engine: int
    work: Work | Transfer
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    opcode: str
    line: int
    number: int
    after: list[int]
    """Instructions that it waits for; the list is the instruction's own, to which its author may add later."""
    queue: str
    meets: int
    loop: tuple[Any, ...]


class _Kind(NamedTuple):
    """What all instructions of one signature share."""

    engine: int
    work: Work | Transfer
    queue: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    """Numbers of the patterns of operands."""
    accumulates: bool
    meets: bool
    special: bool
    """Whether it touches more than its operands and what it accumulates."""


class Trace:
    """The instructions of one core, for timing.

    Args:
        parameters: of the chip that is modelled.
    """

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.steps: list[Step] = []
        self.region_buffers: list[int] = []
        """Per region, a part of a buffer that instructions touch, the position of its buffer in ``buffers``."""
        self.region_boxes: list[Box] = []
        """Per region the part; one object for all buffers of one size, which loops cut alike."""
        self.members: list[list[int]] = []
        """The regions of each buffer."""
        self.buffers: list[Buffer] = []
        self.lines: list[str] = []
        self._buffer_numbers: dict[int, int] = {}
        self._region_numbers: dict[Any, int] = {}
        self._boxes: dict[tuple[bool, int, int], dict[tuple[int, int], Box]] = {}
        """For buffers of one size (on chip or not, bytes in a partition, bytes) a box per offset and pattern."""
        self._boxes_of: list[dict[tuple[int, int], Box]] = []
        """Those of each buffer."""
        self._line_numbers: dict[tuple[int, int], int] = {}
        self._codes: list[CodeType | None] = []
        """Code that was numbered; kept, so that its number stays its own."""
        self._kinds: dict[int, _Kind] = {}
        self._patterns: dict[Any, int] = {}
        self._meetings: dict[int, int] = {}
        self._once: dict[Any, Any] = {}

    def keep(self, core: int, ins: Instruction) -> None:
        """Take one instruction; ``core`` is ignored, a trace is of one core."""
        del core
        kind = self._kinds.get(ins.kind)
        if kind is None or ins.kind < 0:
            kind = self._kind(ins)
        numbers = self._region_numbers
        reads: list[int] = []
        for view, pattern in zip(ins.ins, kind.reads):  # noqa: B905 - of one kind, and done often
            if view is not None:
                key = (id(view.storage.buffer), view.offset, pattern)
                region = numbers.get(key)
                reads.append(self._region(view, key) if region is None else region)
        writes: list[int] = []
        for view, pattern in zip(ins.outs, kind.writes):  # noqa: B905 - likewise
            if view is not None:
                key = (id(view.storage.buffer), view.offset, pattern)
                region = numbers.get(key)
                writes.append(self._region(view, key) if region is None else region)
        if kind.special:
            self._special(ins, reads, writes)
        if kind.accumulates:
            reads += writes
        line = self._line_numbers.get((id(ins.code), ins.lineno))
        step = (
            kind.engine,
            kind.work,
            tuple(reads),
            tuple(writes),
            ins.opcode,
            self._line(ins) if line is None else line,
            ins.number,
            ins.after,
            kind.queue,
            self._meeting(ins.attributes.get("pipe_id")) if kind.meets else 0,
            ins.loop,
        )
        self.steps.append(_record(Step, step))

    def _special(self, ins: Instruction, reads: list[int], writes: list[int]) -> None:
        """What an instruction touches besides its operands."""
        for view in (*ins.outs, *ins.ins):
            if view is not None and view.dynamic is not None:
                self._index(view, reads)
        if ins.opcode == "core_barrier":
            writes.extend(reads)  # what follows on the shared tensor waits for both cores

    def _kind(self, ins: Instruction) -> _Kind:
        """What all instructions of one signature share."""
        engine = _NUMBER.get(ins.engine, _DMA)
        accumulates = ins.opcode == "nc_matmul" and ins.attributes["accumulate"] is not False
        dynamic = any(view is not None and view.dynamic is not None for view in (*ins.outs, *ins.ins))
        found = _Kind(
            engine,
            transfer_of(ins, self.parameters) if engine == _DMA else work_of(ins, self.parameters),
            str(ins.attributes.get("trigger", "unknown")) if engine == _DMA else "",
            tuple(self._pattern(view) for view in ins.ins),
            tuple(self._pattern(view) for view in ins.outs),
            accumulates,
            ins.opcode in _SYNCHRONISE,
            dynamic or ins.opcode == "core_barrier",
        )
        self._kinds[ins.kind] = found
        return found

    def _pattern(self, view: View | None) -> int:
        """A number for how a view lies, wherever it lies."""
        if view is None:
            return -1
        key = (view.shape, view.strides, view.dtype, view.dynamic is None)
        return self._patterns.setdefault(key, len(self._patterns))

    def touched(self) -> tuple[set[int], set[int]]:
        """Buffers that are read, and buffers that are written."""
        reads: set[int] = set().union(*[step.reads for step in self.steps])
        writes: set[int] = set().union(*[step.writes for step in self.steps])
        return {self.region_buffers[at] for at in reads}, {self.region_buffers[at] for at in writes}

    def _index(self, view: View, reads: list[int]) -> None:
        """The tensor that holds a dynamic address is read too."""
        if view.dynamic is not None and isinstance(view.dynamic.index, View):
            index = view.dynamic.index
            key = (id(index.storage.buffer), index.offset, self._pattern(index))
            region = self._region_numbers.get(key)
            reads.append(self._region(index, key) if region is None else region)

    def once(self, name: Hashable, make: Callable[[], Result]) -> Result:
        """What follows from the regions and buffers of the steps so far, made once for all timings of this trace.

        Args:
            name: of what is made.
            make: makes it; nobody may change it afterwards.
        """
        key = (name, len(self.steps))
        if key not in self._once:
            self._once[key] = make()
        found: Result = self._once[key]
        return found

    def _meeting(self, pipe: int | None) -> int:
        """The next meeting of one pipe, or barrier: each series is counted from 1 on each core."""
        series = 0 if pipe is None else (pipe & _PIPES - 1) + 1
        count = self._meetings[series] = self._meetings.get(series, 0) + 1
        return count * 2 * _PIPES + series

    def _line(self, ins: Instruction) -> int:
        key = (id(ins.code), ins.lineno)  # code is found by its number: hashing it takes long
        found = self._line_numbers.get(key)
        if found is None:
            found = self._line_numbers[key] = len(self.lines)
            self.lines.append(ins.line)
            self._codes.append(ins.code)
        return found

    def _region(self, view: View, key: tuple[int, int, int]) -> int:
        """The number of the region that a view covers, which is met first.

        Args:
            view: of any buffer of the core.
            key: its buffer's ``id``, its offset, and the number of its pattern.
        """
        number = self._buffer_numbers.get(key[0])
        if number is None:
            number = self._buffer(view.storage.buffer)
        boxes, place = self._boxes_of[number], key[1:]
        box = boxes.get(place)
        if box is None:
            box = boxes[place] = _box(view)
        found = self._region_numbers[key] = len(self.region_boxes)
        self.region_buffers.append(number)
        self.region_boxes.append(box)
        self.members[number].append(found)
        return found

    def _buffer(self, buffer: Buffer) -> int:
        """The number of a buffer that is met first."""
        number = self._buffer_numbers[id(buffer)] = len(self.buffers)
        self.buffers.append(buffer)
        self.members.append([])
        size = (buffer.on_chip, buffer.partition_bytes, buffer.bytes)
        self._boxes_of.append(self._boxes.setdefault(size, {}))
        return number


def _box(view: View) -> Box:
    size = view.dtype.bytes
    buffer = view.storage.buffer
    total = math.prod(view.shape) * size
    if view.dynamic is not None:
        return Box((0, 1 << 30), (0, 1 << 40), 0, total)
    span = sum((count - 1) * step for step, count in zip(view.strides[1:], view.shape[1:], strict=True)) + 1
    if buffer.on_chip:
        row = buffer.partition_bytes
        first = view.offset * size
        start = first // row if row else 0
        low = first % row if row else 0
        return Box((start, start + view.shape[0]), (low, low + span * size), 0, total)
    stride = view.strides[0] * size if len(view.shape) > 1 and view.shape[0] > 1 else buffer.bytes
    if stride <= 0 or span * size > stride:
        last = view.offset + sum((c - 1) * s for c, s in zip(view.shape, view.strides, strict=True)) + 1
        return Box((0, 1), (view.offset * size, last * size), 0, total)
    start = view.offset * size
    rows = view.shape[0] if len(view.shape) > 1 else 1
    return Box(
        (start // stride, start // stride + rows),
        (start % stride, start % stride + span * size),
        stride,
        total,
    )
