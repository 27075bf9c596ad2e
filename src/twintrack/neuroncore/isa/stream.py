"""The stream of instructions that a run issued, kept: it names buffers and access patterns and holds no elements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from twintrack.neuroncore.isa.instruction import Access, Instruction, LoopFrame, access_of
from twintrack.neuroncore.memory.view import View

__all__ = ["Record", "Stream"]


@dataclass(frozen=True, slots=True)
class Record:
    """One instruction of a stream.

    Args:
        core: program that issued it.
        number: in that program's order.
        opcode: name of the ``nki.isa`` function.
        engine: where it runs.
        outs: what it writes, in the order of ``OPERANDS``.
        ins: what it reads, likewise.
        attributes: the rest.
        line: ``file:line`` of the author.
        loop: position in the loops around it, the outermost first.
        after: numbers of instructions that it waits for by ``depends_on``.
        name: the author's.
        registers: numbers and values of the registers that it uses.
        indices: tensors that hold the dynamic addresses of its operands, in their order.
    """

    core: int
    number: int
    opcode: str
    engine: str
    outs: tuple[Access | None, ...]
    ins: tuple[Access | None, ...]
    attributes: tuple[tuple[str, Any], ...]
    line: str
    loop: tuple[LoopFrame, ...] = ()
    after: tuple[int, ...] = ()
    name: str | None = None
    registers: tuple[tuple[int, int | float | None], ...] = ()
    indices: tuple[Access, ...] = ()


@dataclass(slots=True)
class Stream:
    """Everything that a launch issued, in the order in which it was carried out.

    Args:
        chip: short name of the chip.
    """

    chip: str
    _records: list[Record] = field(default_factory=list)
    _after: list[list[int]] = field(default_factory=list)
    """Per record what it waits for, which the author may add to after it was issued."""

    def keep(self, core: int, ins: Instruction) -> None:
        """Take one instruction; the sink of a core."""
        self._after.append(ins.after)
        self._records.append(
            Record(
                core,
                ins.number,
                ins.opcode,
                ins.engine.value,
                tuple([None if view is None else access_of(view) for view in ins.outs]),
                tuple([None if view is None else access_of(view) for view in ins.ins]),
                tuple(ins.attributes.items()),
                ins.line,
                ins.loop,
                (),
                ins.name,
                tuple([(one.number, one.value) for one in ins.registers]),
                tuple([access_of(view) for view in _indices(ins)]),
            )
        )

    def add(self, record: Record) -> None:
        """Take a record that was read back."""
        self._after.append(list(record.after))
        self._records.append(record)

    @property
    def records(self) -> tuple[Record, ...]:
        """The instructions, with what each waits for as it is known now."""
        return tuple(self)

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        for record, after in zip(self._records, self._after, strict=True):
            yield replace(record, after=tuple(after)) if after else record

    def counts(self) -> dict[str, int]:
        """Instructions per engine."""
        found: dict[str, int] = {}
        for record in self._records:
            found[record.engine] = found.get(record.engine, 0) + 1
        return found


def _indices(ins: Instruction) -> Iterable[View]:
    """The tensors that hold dynamic addresses."""
    for view in (*ins.outs, *ins.ins):
        if view is not None and view.dynamic is not None and isinstance(view.dynamic.index, View):
            yield view.dynamic.index
