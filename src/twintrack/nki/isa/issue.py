"""How a function of ``nki.isa`` becomes an instruction: arguments in, the record to the running core, a handle back."""

from __future__ import annotations

from typing import Any

import numpy as np

from twintrack.errors import KernelError
from twintrack.neuroncore.isa.instruction import DYNAMIC_LOOPS, Engine, Instruction, LoopFrame, Register
from twintrack.neuroncore.isa.operators import operator_name
from twintrack.nki.context import current_core
from twintrack.nki.isa.constants import ENGINES, engine
from twintrack.nki.tensor import NKIObject, NkiTensor

__all__ = ["NkiInstruction", "author_error", "choose", "issue", "number_or_tensor", "op_name", "tensor_of"]

_new = object.__new__
_FRAMES = 2
"""Calls from an author's line to an instruction at least: of the function of ``nki.isa``, and of ``issue``."""


class NkiInstruction(NKIObject):
    """Handle of an issued instruction.

    Args:
        handle: its record.
    """

    __slots__ = ("handle",)

    def __init__(self, handle: Instruction) -> None:
        self.handle = handle

    def depends_on(self, *producers: NkiInstruction) -> NkiInstruction:
        """This instruction runs after each of these; returns itself.

        Raises:
            KernelError: if a producer was issued later, or stands in another dynamic loop.
        """
        for producer in producers:
            if producer.handle.number >= self.handle.number:
                raise author_error(
                    "producers issued before their consumer",
                    f"instruction {producer.handle.number} for {self.handle.number}",
                    "call depends_on on the later instruction",
                )
            theirs, mine = _dynamic(producer.handle), _dynamic(self.handle)
            if theirs != mine[: len(theirs)]:
                raise author_error(
                    "a producer in the same iteration of a dynamic loop, or around it",
                    f"{_shown(theirs)} for {_shown(mine)}",
                    "make both instructions in one iteration",
                )
            self.handle.after.append(producer.handle.number)
        return self


def _dynamic(ins: Instruction) -> list[LoopFrame]:
    """Its place in the loops that run on the device."""
    return [frame for frame in ins.loop if frame.kind in DYNAMIC_LOOPS]


def _shown(frames: list[LoopFrame]) -> str:
    return (
        ", ".join(f"iteration {one.iteration} of {one.kind} loop {one.loop}" for one in frames) or "no loop"
    )


def author_error(required: str, found: str, remedy: str) -> KernelError:
    """An error about arguments, at the author's line."""
    frame = current_core().author()
    return KernelError(
        required, found=found, where=f"{frame.f_code.co_filename}:{frame.f_lineno}", remedy=remedy
    )


def issue(
    opcode: str,
    where: Engine,
    outs: tuple[NkiTensor | None, ...],
    ins: tuple[NkiTensor | None, ...],
    attributes: dict[str, Any],
    name: str | None = None,
    registers: tuple[Register, ...] = (),
) -> NkiInstruction:
    """Give an instruction to the running core.

    Args:
        opcode: as in ``neuroncore.isa.operands``.
        where: its engine.
        outs: what it writes, in the order of the operand table.
        ins: what it reads.
        attributes: the rest; hashable values, in one order per opcode.
        name: the author's.
        registers: those that it reads or writes.

    Raises:
        KernelError: if an operand is no tensor, or the instruction breaks a rule.
    """
    record = Instruction(opcode, where, outs, ins, attributes, name, registers)
    try:
        current_core().issue(record, _FRAMES)
    except AttributeError:  # looked for only then: nearly all operands are tensors
        for view in outs + ins:
            if view is not None and not isinstance(view, NkiTensor):
                raise _no_tensor(opcode, view) from None
        raise
    handle = _new(NkiInstruction)  # without a call of its constructor: there is one for every instruction
    handle.handle = record
    return handle


def _no_tensor(opcode: str, value: object) -> KernelError:
    return author_error(
        f"tensors as operands of nki.isa.{opcode}",
        f"{type(value).__name__}",
        "pass an nl.ndarray or a slice of one",
    )


def tensor_of(opcode: str, operand: str, value: object) -> NkiTensor:
    """The operand, which must be a tensor."""
    if not isinstance(value, NkiTensor):
        raise author_error(
            f"a tensor for {operand} of nki.isa.{opcode}",
            type(value).__name__,
            "pass an nl.ndarray or a slice of one",
        )
    return value


def flag(name: str, value: object) -> bool:
    """A switch that is neither ``True`` nor ``False``: NumPy's, or 0 and 1.

    Raises:
        KernelError: for anything else, which Python would take for true or false.
    """
    if isinstance(value, np.bool_ | int | np.integer) and value in (0, 1):
        return bool(value)
    raise author_error(f"True or False as {name}", repr(value)[:80], "pass one of them")


def number_or_tensor(value: Any) -> tuple[float | None, NkiTensor | None]:
    """An operand that is a number or a tensor: the one for the attributes, or the other for the operands."""
    if value is None or isinstance(value, NkiTensor):
        return None, value
    if isinstance(value, bool | int | float):
        return value, None
    try:
        return value.item(), None
    except (AttributeError, ValueError, RuntimeError):  # the latter for an array or torch tensor of several
        raise author_error("a number or a tensor", type(value).__name__, "pass one of them") from None


def _shown_op(op: object) -> str:
    """A function by its module and name, anything else as Python shows it."""
    name, module = getattr(op, "__name__", None), str(getattr(op, "__module__", ""))
    if not callable(op) or name is None:
        return repr(op)[:80]
    return f"nl.{name}, a function on tiles" if module.startswith("twintrack.nki") else f"{module}.{name}"


def op_name(op: object) -> str:
    """The name of an operator or activation function.

    Raises:
        KernelError: if it is none.
    """
    name = getattr(op, "nki_op", None)
    if name is not None:
        return str(name)
    try:
        return operator_name(op)
    except KeyError:
        raise author_error(
            "an operator of nki.language", _shown_op(op), "pass one such as nl.add or nl.exp"
        ) from None


def choose(wanted: engine, default: Engine) -> Engine:
    """The engine that the author names, or the one that the instruction runs on by default."""
    if wanted is engine.unknown or wanted is None:
        return default
    try:
        return ENGINES[wanted]
    except (KeyError, TypeError):
        raise author_error(
            "an engine of nki.isa", repr(wanted), "pass one such as nisa.engine.vector"
        ) from None
