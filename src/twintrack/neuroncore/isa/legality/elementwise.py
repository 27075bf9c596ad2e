"""Rules of elementwise instructions on two tensors, or a tensor and scalars.

Sources: docstrings of ``nki.isa.tensor_tensor``, ``tensor_scalar`` and ``scalar_tensor_tensor`` (AWS Neuron 2.32).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.isa.legality.common import (
    SBUF_PSUM,
    broken,
    operands_of,
    partitions_agree,
    region_in,
    same_free_size,
    start_partition,
)
from twintrack.neuroncore.isa.operators import OPERATORS
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.generation import Generation

__all__ = ["RULES"]


def _tensor_tensor(ins: Instruction, generation: Generation) -> None:
    del generation
    dst, data1, data2 = operands_of(ins)
    for view in (dst, data1, data2):
        region_in(ins, view, SBUF_PSUM, "SBUF or PSUM")
        start_partition(ins, view)
    partitions_agree(ins, dst, data1, data2)
    same_free_size(ins, dst, data1, data2)
    op = ins.attributes["op"]
    known = OPERATORS.get(op)
    if known is None or known.operands != 2:
        raise broken(ins, "a binary operator", op, "choose one such as nl.add or nl.bitwise_and")
    if known.category == "bitvec":
        for view in (dst, data1, data2):
            if not view.dtype.is_integer:
                raise broken(ins, f"integer operands for {op}", view.dtype, "convert it first", view)
    psum = [view for view in (data1, data2) if view.storage.buffer.region is MemoryRegion.psum]
    if len(psum) == 2:
        raise broken(ins, "at most one input in PSUM", "two", "copy one to SBUF first", psum[1])


RULES: Mapping[str, Callable[[Instruction, Generation], None]] = MappingProxyType(
    {"tensor_tensor": _tensor_tensor}
)
"""By opcode."""
