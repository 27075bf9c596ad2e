"""What cores that meet at an instruction must agree on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from twintrack.errors import KernelError
from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.isa.operands import OPERANDS
from twintrack.neuroncore.memory.view import View

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.machine import Arrival, Machine

__all__ = ["require_alike"]


def require_alike(
    machine: Machine,
    arrivals: dict[int, Arrival],
    *,
    apart: tuple[str, ...] = (),
    tensors: tuple[str, ...] = (),
    shapes: bool = False,
) -> None:
    """All cores gave equal arguments.

    Args:
        machine: names the cores.
        arrivals: by lane.
        apart: attributes that may differ.
        tensors: operands that must be the same buffer.
        shapes: whether all operands must have equal types and shapes.

    Raises:
        KernelError: naming the argument, both values and both lines.
    """
    lanes = list(arrivals)
    first = arrivals[lanes[0]].ins
    for lane in lanes[1:]:
        other = arrivals[lane].ins
        found = next(_differences(first, other, apart, tensors, shapes=shapes), None)
        if found is not None:
            name, mine, theirs = found
            raise KernelError(
                f"the same {name} for {first.opcode} on {machine.named(lanes[0])} and {machine.named(lane)}",
                found=f"{mine} at {first.line} and {theirs} at {other.line}",
                where=other.line,
                remedy="let every core reach the same call with the same arguments",
            )


def _differences(
    first: Instruction, other: Instruction, apart: tuple[str, ...], tensors: tuple[str, ...], *, shapes: bool
) -> Iterator[tuple[str, object, object]]:
    if first.opcode != other.opcode:
        yield "instruction", first.opcode, other.opcode
        return
    if len(first.outs) != len(other.outs) or len(first.ins) != len(other.ins):
        yield "number of tensors", len(first.ins), len(other.ins)
    if first.engine != other.engine:
        yield "engine", first.engine.value, other.engine.value
    for name, value in first.attributes.items():
        if name not in apart and other.attributes[name] != value:
            yield name, value, other.attributes[name]
    for mine, theirs in zip(_operands(first), _operands(other), strict=True):
        name, a = mine
        b = theirs[1]
        if name in tensors and (a is None or b is None or a.storage is not b.storage):
            yield name, _shown(a), _shown(b)
        if shapes and _kind(a) != _kind(b):
            yield f"type and shape of {name}", _kind(a), _kind(b)


def _operands(ins: Instruction) -> Iterator[tuple[str, View | None]]:
    names = OPERANDS[ins.opcode]
    for views, known in ((ins.outs, names.outs), (ins.ins, names.ins)):
        for at, view in enumerate(views):
            yield known[min(at, len(known) - 1)], view


def _kind(view: View | None) -> Any:
    return None if view is None else f"{view.dtype} {list(view.shape)} in {view.storage.buffer.region.value}"


def _shown(view: View | None) -> str:
    return "none" if view is None else view.describe()
