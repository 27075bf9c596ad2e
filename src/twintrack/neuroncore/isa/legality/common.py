"""What the rules of many instructions share: the error they raise, and the rules of regions, types and partitions.

Sources are named per rule: ``isa`` stands for the docstrings of ``nki.isa`` in the AWS Neuron documentation 2.32,
``arch`` for its architecture guides.
"""

from __future__ import annotations

from collections.abc import Container

from twintrack.errors import KernelError
from twintrack.neuroncore.isa.instruction import Engine, Instruction
from twintrack.neuroncore.isa.operands import OPERANDS
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.generation import PARTITIONS
from twintrack.neuroncore.memory.view import View

__all__ = [
    "SBUF",
    "SBUF_PSUM",
    "broken",
    "free_size_is",
    "name_of",
    "operands_of",
    "partitions_agree",
    "region_in",
    "same_free_size",
    "start_partition",
    "type_in",
]

SBUF = frozenset({MemoryRegion.sbuf})
SBUF_PSUM = frozenset({MemoryRegion.sbuf, MemoryRegion.psum})


def name_of(ins: Instruction, view: View) -> str:
    """The documented name of an operand, of the operand that a view is a part of, or of the one that it indexes."""
    names = OPERANDS[ins.opcode]
    operands = [
        (one, known[min(at, len(known) - 1)])
        for views, known in ((ins.outs, names.outs), (ins.ins, names.ins))
        for at, one in enumerate(views)
        if one is not None
    ]
    for one, name in operands:
        if one is view:
            return name
    for one, name in operands:
        if one.dynamic is not None and one.dynamic.index is view:
            return f"the index of {name}"
    for one, name in operands:
        if one.storage is view.storage:
            return name
    return "operand"


def broken(ins: Instruction, required: str, found: str, remedy: str, view: View | None = None) -> KernelError:
    """The error of an instruction that breaks a rule, at the author's line, about this operand where there is one."""
    if view is not None:
        found = f"{found} in {name_of(ins, view)}, {view.describe()}"
    return KernelError(
        f"{required} for nki.isa.{ins.opcode}" if "." not in ins.opcode else required,
        found=found,
        where=ins.line,
        remedy=remedy,
    )


def region_in(ins: Instruction, view: View, allowed: Container[MemoryRegion], named: str) -> None:
    """The operand lies where the instruction can reach it."""
    region = view.storage.buffer.region
    if region not in allowed:
        raise broken(ins, f"{name_of(ins, view)} in {named}", region.value, f"copy it to {named} first", view)
    if ins.engine is Engine.GPSIMD and region is MemoryRegion.psum:
        raise broken(
            ins,
            "operands in SBUF, as GpSimd cannot reach PSUM,",
            "PSUM",
            "copy it to SBUF, or choose another engine",
            view,
        )


def type_in(ins: Instruction, view: View, allowed: Container[str], named: str) -> None:
    """The operand has one of these element types."""
    if view.dtype not in allowed:
        raise broken(ins, f"{name_of(ins, view)} of type {named}", view.dtype, "convert it first", view)


def start_partition(ins: Instruction, view: View) -> None:
    """The operand's partitions are ones that an engine can address together.

    At most 128; more than 64 must start at 0, more than 32 at 0 or 64, others at a multiple of 32 (arch, access
    patterns of the engines).
    """
    count = view.shape[0]
    if count > PARTITIONS:
        raise broken(
            ins, f"at most {PARTITIONS} partitions", f"{count}", "split the operation over partitions", view
        )
    start = view.start_partition
    if not start:
        return
    if count > 64:
        allowed, named = start == 0, "0"
    elif count > 32:
        allowed, named = start in (0, 64), "0 or 64"
    else:
        allowed, named = start % 32 == 0, "0, 32, 64 or 96"
    if not allowed:
        raise broken(
            ins,
            f"a start partition of {named} for {count} partitions",
            f"{start}",
            "place the data at such a partition, or move them with a DMA",
            view,
        )


def partitions_agree(ins: Instruction, first: View, *others: View | None) -> None:
    """All operands have as many partitions as the first."""
    for other in others:
        if other is not None and other.shape[0] != first.shape[0]:
            raise broken(
                ins,
                f"as many partitions in {name_of(ins, other)} as in {name_of(ins, first)} ({first.shape[0]})",
                f"{other.shape[0]}",
                "slice or allocate them alike",
                other,
            )


def same_free_size(ins: Instruction, first: View, *others: View | None) -> None:
    """All operands have as many elements per partition as the first."""
    for other in others:
        if other is not None and other.free_size != first.free_size:
            raise broken(
                ins,
                f"as many elements per partition in {name_of(ins, other)} as in {name_of(ins, first)} "
                f"({first.free_size})",
                f"{other.free_size}",
                "slice or allocate them alike",
                other,
            )


def free_size_is(ins: Instruction, view: View, size: int) -> None:
    """The operand has exactly this many elements per partition."""
    if view.free_size != size:
        raise broken(
            ins,
            f"{size} elements per partition in {name_of(ins, view)}",
            f"{view.free_size}",
            f"allocate it as ({view.shape[0]}, {size})",
            view,
        )


def operands_of(ins: Instruction) -> tuple[View, ...]:
    """The operands that are there: what it writes, then what it reads."""
    return tuple(view for view in (*ins.outs, *ins.ins) if view is not None)
