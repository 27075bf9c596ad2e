"""Rules of instructions that move data: DMA, copies, fills.

Sources: docstrings of ``nki.isa.dma_copy``, ``dma_transpose``, ``dma_compute``, ``tensor_copy``,
``tensor_copy_predicated`` and ``memset`` (AWS Neuron 2.32).
"""

from __future__ import annotations

import math
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
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.generation import PARTITIONS, Generation

__all__ = ["RULES"]

_DMA = frozenset({MemoryRegion.sbuf, MemoryRegion.private_hbm, MemoryRegion.shared_hbm})


def _dma_copy(ins: Instruction, generation: Generation) -> None:
    dst, src = operands_of(ins)
    for view in (dst, src):
        region_in(ins, view, _DMA, "SBUF or HBM")
        if view.storage.buffer.on_chip and view.shape[0] > PARTITIONS:
            raise broken(ins, f"at most {PARTITIONS} partitions", f"{view.shape[0]}", "split the copy", view)
    if math.prod(dst.shape) != math.prod(src.shape):
        raise broken(
            ins,
            f"as many elements in src as in dst ({math.prod(dst.shape)})",
            f"{math.prod(src.shape)}",
            "slice or allocate them alike",
            src,
        )
    if "packed" in (dst.dtype.kind, src.dtype.kind) and dst.dtype is not src.dtype:
        raise broken(ins, f"packed elements moved as {src.dtype}", dst.dtype, "move them as they are", dst)
    if ins.attributes["dge_mode"] == "hwdge" and generation.number < 3:
        raise broken(ins, "NeuronCore-v3 or newer for dge_mode.hwdge", generation.chip, "use dge_mode.swdge")
    if ins.attributes["trigger"] != "unknown" and ins.attributes["dge_mode"] != "hwdge":
        raise broken(
            ins, "dge_mode.hwdge where an engine is named", ins.attributes["dge_mode"], "leave engine unset"
        )


def _tensor_copy(ins: Instruction, generation: Generation) -> None:
    dst, src = operands_of(ins)
    for view in (dst, src):
        region_in(ins, view, SBUF_PSUM, "SBUF or PSUM")
        start_partition(ins, view)
    partitions_agree(ins, dst, src)
    same_free_size(ins, dst, src)
    if generation.number == 2 and ins.engine == "scalar":
        raise broken(
            ins, "Vector or GpSimd Engine on trn1", "Scalar Engine", "use nisa.activation with op=nl.copy"
        )


def _memset(ins: Instruction, generation: Generation) -> None:
    del generation
    (dst,) = operands_of(ins)
    region_in(ins, dst, SBUF_PSUM, "SBUF or PSUM")
    start_partition(ins, dst)
    if ins.engine not in ("vector", "gpsimd"):
        raise broken(ins, "Vector or GpSimd Engine", ins.engine, "choose one of them")
    if dst.dtype.kind == "packed" and ins.attributes["value"] != 0:
        raise broken(ins, "value=0 for a packed type", f"{ins.attributes['value']}", "fill it with 0", dst)


RULES: Mapping[str, Callable[[Instruction, Generation], None]] = MappingProxyType(
    {"dma_copy": _dma_copy, "tensor_copy": _tensor_copy, "memset": _memset}
)
"""By opcode."""
