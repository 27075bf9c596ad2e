"""The record of one instruction, cheap to make: what, on which engine, from where to where, at which line.

The operands of a record are views while it is executed, and bare descriptions (``Access``) once it is kept in a
stream, so that a stream keeps no elements alive.
"""

from __future__ import annotations

from enum import StrEnum
from types import CodeType
from typing import Any, NamedTuple

from twintrack.neuroncore.memory.buffer import Buffer
from twintrack.neuroncore.memory.view import View

__all__ = ["DYNAMIC_LOOPS", "Access", "Engine", "Instruction", "LoopFrame", "Register", "access_of"]


class Engine(StrEnum):
    """Engines with a queue of instructions."""

    TENSOR = "tensor"
    VECTOR = "vector"
    SCALAR = "scalar"
    GPSIMD = "gpsimd"
    DMA = "dma"
    SYNC = "sync"


class Register:
    """A register of the sequencers: 32 bits, read as a signed integer, or as a float32 where one was loaded.

    Args:
        number: counted from 0 in a core's run.
        value: what it holds; ``None`` where it was never written, or where values are not computed.
        line: ``file:line`` where it was made.
    """

    __slots__ = ("line", "number", "value", "written")

    def __init__(self, number: int, value: int | float | None, line: str) -> None:
        self.number = number
        self.value = value
        self.line = line
        self.written = value is not None
        """Whether anything was put in it; a written one without a value was loaded where none are computed."""

    def __repr__(self) -> str:
        shown = self.value if self.value is not None else "?"
        return f"r{self.number}={shown}"


class LoopFrame(NamedTuple):
    """Where an instruction stands in one loop around it."""

    loop: int
    """Executions of loops on this core are counted from 0; an inner loop gets a number each time that it starts."""
    kind: str
    """``affine``, ``sequential``, ``static``, ``dynamic``, ``fori`` or ``while``."""
    iteration: int
    """From 0."""


DYNAMIC_LOOPS = frozenset({"dynamic", "fori", "while"})
"""Kinds of loops that run on the device; the others are unrolled when the kernel is traced."""


class Access(NamedTuple):
    """What an operand touched: an access pattern over a buffer, in elements of ``dtype``."""

    buffer: Buffer
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dynamic: str
    """``scalar``, ``vector`` or ``tensor`` where the offset was known only at run time; else empty."""


def access_of(view: View) -> Access:
    """The description of a view."""
    kind = view.dynamic.kind if view.dynamic is not None else ""
    return Access(view.storage.buffer, view.dtype, view.shape, view.strides, view.offset, kind)


class Instruction:
    """One instruction.

    Args:
        opcode: name of the ``nki.isa`` function that issues it.
        engine: where it runs.
        outs: views that it writes, in the order of ``OPERANDS``; ``None`` for an optional one that is absent.
        ins: views that it reads, in the order of ``OPERANDS``; ``None`` where absent or given as a number, which then
            stands in ``attributes`` under the operand's name.
        attributes: everything else that decides what it does; values are hashable.
        name: as the author gave it.
    """

    __slots__ = (
        "after",
        "attributes",
        "code",
        "engine",
        "ins",
        "kind",
        "lineno",
        "loop",
        "name",
        "number",
        "opcode",
        "outs",
        "registers",
    )

    def __init__(
        self,
        opcode: str,
        engine: Engine,
        outs: tuple[View | None, ...],
        ins: tuple[View | None, ...],
        attributes: dict[str, Any],
        name: str | None = None,
        registers: tuple[Register, ...] = (),
    ) -> None:
        self.opcode = opcode
        self.engine = engine
        self.outs = outs
        self.ins = ins
        self.attributes = attributes
        self.name = name
        self.registers = registers
        """Registers that it reads or writes."""
        self.code: CodeType | None = None
        """The author's code object; set when it is issued."""
        self.lineno = 0
        self.number = -1
        """In the order of issue, from 0."""
        self.kind = -1
        """Number of its signature on its core: instructions of one kind differ only in where they read and write; -1
        where nothing is checked."""
        self.loop: tuple[LoopFrame, ...] = ()
        """Its place in every NKI loop around it, the outermost first."""
        self.after: list[int] = []
        """Instructions that it must wait for by ``depends_on``."""

    @property
    def line(self) -> str:
        """``file:line`` of the kernel's author."""
        return f"{self.code.co_filename}:{self.lineno}" if self.code is not None else "unknown line"
