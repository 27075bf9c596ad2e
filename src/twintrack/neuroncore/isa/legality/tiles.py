"""Rules that instructions on tiles share: generation, place, counts per partition, numbers of 32 bits.

Sources are named where a rule is applied.
"""

from __future__ import annotations

import math

from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.isa.legality.common import broken, is_output, name_of, region_in, start_partition
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.generation import Generation
from twintrack.neuroncore.memory.view import View

__all__ = [
    "affine_pattern",
    "at_least",
    "dimensions",
    "float32_number",
    "integer32",
    "number_type",
    "one_per_partition",
    "same_type",
    "tile",
]

_LOWEST, _HIGHEST = -(2**31), 2**31 - 1
_HIGHEST_FLOAT32 = 2.0**128 - 2.0**103
"""Half a unit above the largest float32: what is smaller in magnitude rounds to a finite one."""


def tile(ins: Instruction, view: View, allowed: frozenset[MemoryRegion], named: str) -> None:
    """A tile where the engine reaches it, at partitions that it can address."""
    region_in(ins, view, allowed, named)
    start_partition(ins, view)


def at_least(ins: Instruction, generation: Generation, number: int, remedy: str) -> None:
    """The instruction is there from this NeuronCore version on."""
    if generation.number < number:
        raise broken(ins, f"NeuronCore-v{number} or newer", generation.chip, remedy)


def number_type(ins: Instruction, view: View) -> None:
    """The operand's elements are numbers, not packed words or shared exponents."""
    if view.dtype.kind in ("packed", "scale"):
        raise broken(ins, f"numbers in {name_of(ins, view)}", view.dtype, "use a float or integer type", view)


def same_type(ins: Instruction, first: View, other: View) -> None:
    """Both operands have one element type, as nothing is cast."""
    if first.dtype is not other.dtype:
        raise broken(
            ins,
            f"{name_of(ins, other)} of the type of {name_of(ins, first)} ({first.dtype})",
            other.dtype,
            "allocate it so, or cast with nisa.tensor_copy",
            other,
        )


def dimensions(ins: Instruction, view: View, low: int, high: int) -> None:
    """The operand has this many dimensions, partitions included."""
    if not low <= len(view.shape) <= high:
        wanted = f"{low}" if low == high else f"{low} to {high}"
        raise broken(
            ins,
            f"{wanted} dimensions in {name_of(ins, view)}",
            f"{len(view.shape)}",
            "reshape it",
            view,
        )


def one_per_partition(ins: Instruction, view: View, first: View) -> None:
    """The operand is a vector: one element for each partition of ``first``."""
    if view.shape[0] != first.shape[0] or view.free_size != 1:
        remedy = f"allocate it as ({first.shape[0]}, 1)"
        if not is_output(ins, view):
            if view.free_size != 1:
                remedy = "slice one column of it, such as [:, 0:1]"
            elif view.shape[0] == 1:
                remedy = f"repeat it with nl.broadcast_to(tile, ({first.shape[0]}, 1))"
            else:
                remedy = "slice them alike"
        raise broken(
            ins,
            f"one element for each partition of {name_of(ins, first)} in {name_of(ins, view)}",
            f"shape {list(view.shape)}",
            remedy,
            view,
        )


def integer32(ins: Instruction, attribute: str) -> None:
    """The number given for this argument fits 32 bits."""
    value = ins.attributes[attribute]
    if not _LOWEST <= value <= _HIGHEST:
        raise broken(ins, f"an int32 {attribute}", f"{value}", f"keep it from {_LOWEST} to {_HIGHEST}")


def float32_number(ins: Instruction, attribute: str) -> None:
    """The number given for this argument is one of float32: infinity and NaN are, a larger finite one is not."""
    value = ins.attributes[attribute]
    if abs(value) >= _HIGHEST_FLOAT32 and value not in (math.inf, -math.inf):
        raise broken(ins, f"a float32 {attribute}", f"{value}", "keep its magnitude below 3.4028235e+38")


def affine_pattern(ins: Instruction, view: View) -> None:
    """``[step, num]`` pairs of at most four dimensions, with as many elements as the operand has per partition."""
    pattern = ins.attributes["pattern"]
    if not 1 <= len(pattern) <= 4:
        raise broken(ins, "a pattern of 1 to 4 pairs [step, num]", f"{len(pattern)}", "merge dimensions")
    for step, count in pattern:
        if count < 1 or not _LOWEST <= step <= _HIGHEST:
            raise broken(
                ins,
                "pairs [step, num] with an int32 step and a positive num in pattern",
                f"[{step}, {count}]",
                "give the size of each dimension as num",
            )
    size = math.prod(count for _, count in pattern)
    if size != view.free_size:
        raise broken(
            ins,
            f"a pattern of as many elements as {name_of(ins, view)} has per partition ({view.free_size})",
            f"{size}",
            "make the product of the nums equal to it",
            view,
        )
    integer32(ins, "offset")
    integer32(ins, "channel_multiplier")
