"""What the rules of many instructions share: the error they raise, and the rules of regions, types and partitions.

Sources are named per rule: ``isa`` stands for the docstrings of ``nki.isa`` in the AWS Neuron documentation 2.32,
``arch`` for its architecture guides.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

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
    "is_output",
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
_BUFFERS: Mapping[MemoryRegion, str] = MappingProxyType({one: f"nl.{one.value}" for one in MemoryRegion})
_PREFERRED = ("float32", "uint32", "int32", "bfloat16")
"""Element types to allocate a destination as, the first that is allowed."""


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


def is_output(ins: Instruction, view: View) -> bool:
    """Whether the instruction only writes the operand: then it can be allocated otherwise, not copied first."""
    return any(one is view for one in ins.outs) and not any(one is view for one in ins.ins)


def region_in(ins: Instruction, view: View, allowed: Collection[MemoryRegion], named: str) -> None:
    """The operand lies where the instruction can reach it."""
    region = view.storage.buffer.region
    if region not in allowed:
        name = name_of(ins, view)
        buffers = " or ".join(_BUFFERS[one] for one in MemoryRegion if one in allowed)
        raise broken(
            ins,
            f"{name} in {named}",
            region.value,
            f"allocate {name} in {buffers}" if is_output(ins, view) else f"copy it to {named} first",
            view,
        )
    if ins.engine is Engine.GPSIMD and region is MemoryRegion.psum:
        raise broken(
            ins,
            "operands in SBUF, as GpSimd cannot reach PSUM,",
            "PSUM",
            f"{'allocate' if is_output(ins, view) else 'copy'} it "
            f"{'in nl.sbuf' if is_output(ins, view) else 'to SBUF'}, or choose another engine",
            view,
        )


def type_in(ins: Instruction, view: View, allowed: Collection[str], named: str) -> None:
    """The operand has one of these element types."""
    if view.dtype not in allowed:
        name = name_of(ins, view)
        remedy = "cast it first with nisa.tensor_copy"
        if is_output(ins, view):
            kind = next((one for one in _PREFERRED if one in allowed), None) or min(allowed)
            remedy = f"allocate {name} as nl.{kind}; nisa.tensor_copy casts what is in it"
        raise broken(ins, f"{name} of type {named}", view.dtype, remedy, view)


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
                f"repeat it with nl.broadcast_to(tile, ({first.shape[0]}, {other.free_size}))"
                if other.shape[0] == 1 and len(other.shape) == 2 and not is_output(ins, other)
                else "slice or allocate them alike",
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
                _alike(ins, first, other),
                other,
            )


def _alike(ins: Instruction, first: View, other: View) -> str:
    """What makes elements per partition agree: an operand of one element can be repeated."""
    if other.free_size != 1 or is_output(ins, other):
        return "slice or allocate them alike"
    scalar = ", or use nisa.tensor_scalar" if ins.opcode == "tensor_tensor" else ""
    return f"repeat it with .broadcast(1, {first.free_size}){scalar}"


def free_size_is(ins: Instruction, view: View, size: int) -> None:
    """The operand has exactly this many elements per partition."""
    if view.free_size != size:
        raise broken(
            ins,
            f"{size} elements per partition in {name_of(ins, view)}",
            f"{view.free_size}",
            f"slice it to {size} of them"
            if view.free_size > size and not is_output(ins, view)
            else f"allocate it as ({view.shape[0]}, {size})",
            view,
        )


def operands_of(ins: Instruction) -> tuple[View, ...]:
    """The operands that are there: what it writes, then what it reads."""
    return tuple(view for view in (*ins.outs, *ins.ins) if view is not None)
