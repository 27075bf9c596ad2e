"""Loops on the device have one body: every iteration must issue what the first one issued.

A kernel runs as Python, so the body of ``nl.dynamic_range``, ``nl.fori_loop`` and ``nl.while_loop`` is called once per
iteration, and a Python counter or a list of tiles may change what it issues. The compiler makes a single copy of the
body (AWS Neuron 2.32, ``nki/deep-dives/nki-dynamic-loops.rst``), so the device cannot follow. The first iteration is
kept here as a template, with loops on the device inside it as templates of their own; later iterations are compared
with it, instruction by instruction.

Two iterations issue the same where opcode, engine, source line and attributes agree, and each operand is the same
buffer or one that was made at the same place of its iteration, alike in type, shape and access pattern, with the same
register or tensor as its dynamic index. Not compared: names of instructions, and a ``while reg:``, whose start and end
leave no trace.
"""

from __future__ import annotations

from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple

from twintrack.errors import KernelError
from twintrack.neuroncore.isa.instruction import Instruction, Register
from twintrack.neuroncore.isa.operands import OPERANDS
from twintrack.neuroncore.memory.buffer import Buffer
from twintrack.neuroncore.memory.view import View

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core

__all__ = ["Body", "OneBody"]

_NUMBERS = frozenset({"dst", "src"})
"""Attributes that number the registers of an instruction, which are compared as registers."""
_REMEDY = "carry what changes between iterations in SBUF, HBM or a register, or unroll the loop with nl.static_range"


class _Operand(NamedTuple):
    """What decides whether an operand of two iterations is the same."""

    place: tuple[Any, ...]
    """Which buffer, independent of the iteration where it was made in it."""
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dynamic: tuple[Any, ...] | None


class _Step(NamedTuple):
    """One instruction of a template."""

    opcode: str
    engine: str
    code: CodeType | None
    lineno: int
    attributes: tuple[tuple[str, Any], ...]
    registers: tuple[tuple[Any, ...], ...]
    operands: tuple[_Operand | None, ...]


class Body:
    """The template of one loop's body, and where the iteration that runs stands in it.

    Args:
        kind: of the loop, as in ``LoopFrame``.
        line: ``file:line`` of the loop.
        bounds: numbers, or what identifies a register.
    """

    __slots__ = (
        "at",
        "bounds",
        "buffers",
        "complete",
        "iteration",
        "kind",
        "line",
        "registers",
        "serial",
        "steps",
    )

    def __init__(self, kind: str, line: str, bounds: tuple[Any, ...]) -> None:
        self.kind = kind
        self.line = line
        self.bounds = bounds
        self.steps: list[tuple[_Step, tuple[Buffer | None, ...]] | Body] = []
        """Instructions of the first iteration with the buffers of their operands, and loops inside."""
        self.complete = False
        """Whether the first iteration was run to its end."""
        self.iteration = -1
        self.serial = -1
        """Of the iteration that runs, among all of the run; -1 between executions of the loop."""
        self.at = 0
        self.buffers = 0
        """Buffers made in this iteration, those of loops inside left out."""
        self.registers = 0


class _Made(NamedTuple):
    """Where a buffer or a register was made."""

    bodies: tuple[tuple[Body, int], ...]
    """Loops that were running, each with the serial of its iteration."""
    ordinal: int
    """Among those made in the iteration of the innermost."""


class OneBody:
    """The comparison on one core, from the start of an outermost loop on the device to its end."""

    def __init__(self, core: Core) -> None:
        self._running: list[Body] = []
        self._serial = 0
        self._buffers: dict[int, _Made] = {}
        """By identity; buffers from before the outermost loop are not here."""
        self._seen_buffers = len(core.buffers)
        self._registers: dict[int, _Made] = {}
        self._seen_registers = core.registers_made

    # loops

    def enter(self, core: Core, kind: str, line: str, bounds: tuple[object, ...]) -> Body:
        """A loop on the device starts.

        Args:
            core: on which.
            kind: as in ``LoopFrame``.
            line: ``file:line`` of the loop.
            bounds: integers or registers; the condition, for ``while``.

        Raises:
            KernelError: if the first iteration of the loop around it has another instruction or loop here.
        """
        self._sync(core)
        known = tuple([self._register(one) if isinstance(one, Register) else one for one in bounds])
        body = self._inner(kind, line, known) if self._running else Body(kind, line, known)
        body.iteration = -1
        if not body.complete:
            body.steps.clear()
        self._running.append(body)
        return body

    def _inner(self, kind: str, line: str, bounds: tuple[Any, ...]) -> Body:
        around = self._running[-1]
        if not around.complete:
            made = Body(kind, line, bounds)
            around.steps.append(made)
            around.at += 1
            return made
        here = f"nl.{_shown_kind(kind)}"
        if around.at >= len(around.steps):
            raise _differs(around, line, f"{here} beyond the last instruction of the first iteration")
        found = around.steps[around.at]
        if not isinstance(found, Body):
            step = found[0]
            raise _differs(around, line, f"{here}, and nki.isa.{step.opcode} at {_line(step)} in the first")
        if (found.kind, found.line) != (kind, line):
            other = f"nl.{_shown_kind(found.kind)} at {found.line}"
            raise _differs(around, line, f"{here}, and {other} in the first")
        if found.bounds != bounds:
            raise _differs(around, line, f"{here} with bounds other than in the first")
        around.at += 1
        return found

    def iterate(self, core: Core, body: Body) -> None:
        """An iteration of a loop starts.

        Raises:
            KernelError: if the one before it left out what the first one issued.
        """
        self._close(core, body)
        body.iteration += 1
        body.serial = self._serial
        self._serial += 1
        body.at = body.buffers = body.registers = 0

    def leave(self, core: Core, body: Body, *, whole: bool) -> bool:
        """A loop ends.

        Args:
            core: on which.
            body: of the loop.
            whole: whether its last iteration ran to its end; it did not after ``break`` or an error.

        Returns:
            Whether no loop on the device is left.

        Raises:
            KernelError: if the last iteration left out what the first one issued.
        """
        if body in self._running:
            if whole:
                self._close(core, body)
            self._sync(core)
            for one in self._running[self._running.index(body) :]:
                one.serial = -1
            del self._running[self._running.index(body) :]
        return not self._running

    def _close(self, core: Core, body: Body) -> None:
        """The iteration that runs ends; so do loops inside of which nobody told that they ended."""
        self._sync(core)
        at = self._running.index(body)
        for one in self._running[at + 1 :]:
            one.serial = -1
        del self._running[at + 1 :]
        if body.iteration < 0:
            return
        if body.complete and body.at < len(body.steps):
            left = body.steps[body.at]
            if isinstance(left, Body):
                what, line = f"nl.{_shown_kind(left.kind)}", left.line
            else:
                what, line = f"nki.isa.{left[0].opcode}", _line(left[0])
            raise _differs(body, line, f"no {what}, which the first one has here")
        body.complete = True

    # what was made where

    def _sync(self, core: Core) -> None:
        """Note where buffers and registers were made since the last look."""
        running = self._running
        path = tuple([(body, body.serial) for body in running])
        for buffer in core.buffers[self._seen_buffers :]:
            if running:
                self._buffers[id(buffer)] = _Made(path, running[-1].buffers)
                running[-1].buffers += 1
        self._seen_buffers = len(core.buffers)
        for number in range(self._seen_registers, core.registers_made):
            if running:
                self._registers[number] = _Made(path, running[-1].registers)
                running[-1].registers += 1
        self._seen_registers = core.registers_made

    def _place(self, made: _Made | None, identity: int) -> tuple[Any, ...]:
        """What is equal for buffers made at the same place of different iterations, and else only for the same."""
        if made is None:
            return (identity,)
        current = False
        for body, serial in made.bodies:
            if body.serial >= 0:
                if body.serial != serial:
                    return (identity, "earlier")  # made in an earlier iteration
                current = True
        return (id(made.bodies[-1][0]), made.ordinal, "here") if current else (identity,)

    def _register(self, one: Register) -> tuple[Any, ...]:
        return self._place(self._registers.get(one.number), one.number)

    # instructions

    def __call__(self, core: Core, ins: Instruction) -> None:
        """Compare an instruction with the first iteration of the innermost loop, or keep it if it is of that one.

        Raises:
            KernelError: at its line, naming the first difference.
        """
        if len(core.buffers) != self._seen_buffers or core.registers_made != self._seen_registers:
            self._sync(core)
        body = self._running[-1] if self._running else None
        if body is None or body.iteration < 0:
            return
        step = self._step(ins)
        if not body.complete:
            body.steps.append((step, tuple([_buffer(view) for view in (*ins.outs, *ins.ins)])))
        elif body.at >= len(body.steps):
            raise _differs(
                body, ins.line, f"nki.isa.{ins.opcode} beyond the last instruction of the first iteration"
            )
        else:
            first = body.steps[body.at]
            if isinstance(first, Body):
                raise _differs(
                    body,
                    ins.line,
                    f"nki.isa.{ins.opcode}, and nl.{_shown_kind(first.kind)} at {first.line} in the first",
                )
            if step != first[0]:
                difference = _difference(ins, step, first[0], first[1])
                if difference:
                    raise _differs(body, ins.line, difference)
        body.at += 1

    def _step(self, ins: Instruction) -> _Step:
        attributes = ins.attributes.items()
        registers = ins.registers
        return _Step(
            ins.opcode,
            ins.engine,
            ins.code,
            ins.lineno,
            tuple([one for one in attributes if one[0] not in _NUMBERS] if registers else attributes),
            tuple([self._register(one) for one in registers]),
            tuple([None if view is None else self._operand(view) for view in (*ins.outs, *ins.ins)]),
        )

    def _operand(self, view: View) -> _Operand:
        storage, dynamic = view.storage, None
        buffer = storage.buffer
        if view.dynamic is not None:
            kind, index, stride, limit, dim = view.dynamic
            at = self._register(index) if isinstance(index, Register) else self._operand(index)
            dynamic = (kind, at, stride, limit, dim)
        if buffer.origin == "constant":  # its elements are part of the program
            content = None if storage.data is None else hash(bytes(storage.data))
            place: tuple[Any, ...] = ("constant", buffer.dtype, buffer.shape, content)
        else:
            place = self._place(self._buffers.get(id(buffer)), id(buffer))
        return _Operand(place, view.dtype, view.shape, view.strides, view.offset, dynamic)


def _buffer(view: View | None) -> Buffer | None:
    return None if view is None else view.storage.buffer


def _line(step: _Step) -> str:
    return f"{step.code.co_filename}:{step.lineno}" if step.code is not None else "unknown line"


def _shown_kind(kind: str) -> str:
    return {"dynamic": "dynamic_range", "fori": "fori_loop", "while": "while_loop"}.get(kind, kind)


def _difference(ins: Instruction, now: _Step, first: _Step, buffers: tuple[Buffer | None, ...]) -> str:
    """The first thing in which two instructions differ, in words; empty where they do not."""
    here = f"nki.isa.{now.opcode}"
    if (now.opcode, now.code, now.lineno) != (first.opcode, first.code, first.lineno):
        return f"{here}, and nki.isa.{first.opcode} at {_line(first)} in the first"
    if now.engine != first.engine:
        return f"{here} on engine {now.engine}, {first.engine} in the first"
    earlier = dict(first.attributes)
    for name, value in now.attributes:
        other = earlier.get(name)
        if value != other and not (value != value and other != other):  # NaN is alike
            return f"{here} with {name}={value!r}, {other!r} in the first"
    if now.registers != first.registers:
        return f"{here} with registers other than in the first"
    views = (*ins.outs, *ins.ins)
    for at, (one, other) in enumerate(zip(now.operands, first.operands, strict=True)):
        if one == other:
            continue
        name, view = _name(ins, at), views[at]
        if one is None or other is None or view is None:
            return f"{here} with{'out' if one is None else ''} {name}, unlike the first"
        return f"{here} with {view.describe()} as {name}, {_was(one, other, buffers[at])} in the first"
    return ""


def _was(now: _Operand, first: _Operand, buffer: Buffer | None) -> str:
    """What an operand was in the first iteration, in words."""
    if now.place != first.place:
        made = "made in an earlier iteration, " if now.place[-1] == "earlier" else ""
        return f"{made}{buffer!r}"
    if now.shape != first.shape or now.dtype != first.dtype:
        return f"{list(first.shape)} of {first.dtype}"
    if now.offset != first.offset or now.strides != first.strides:
        return f"elements from {first.offset} on, here from {now.offset},"
    return "another dynamic index"


def _name(ins: Instruction, at: int) -> str:
    known = OPERANDS[ins.opcode]
    names, place = (known.outs, at) if at < len(ins.outs) else (known.ins, at - len(ins.outs))
    return names[min(place, len(names) - 1)]


def _differs(body: Body, line: str, found: str) -> KernelError:
    return KernelError(
        f"the same instructions in every iteration of nl.{_shown_kind(body.kind)} at {body.line}, as the device has "
        "one copy of its body",
        found=f"in iteration {body.iteration} {found}",
        where=line,
        remedy=_REMEDY,
    )
