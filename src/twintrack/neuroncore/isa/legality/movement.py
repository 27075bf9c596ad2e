"""Rules of instructions that move data: DMA (see ``dma``), copies, fills.

Sources: docstrings of ``nki.isa.tensor_copy``, ``tensor_copy_predicated`` and ``memset`` (AWS Neuron 2.32).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from twintrack.neuroncore.isa.instruction import Engine, Instruction
from twintrack.neuroncore.isa.legality import dma
from twintrack.neuroncore.isa.legality.common import (
    SBUF_PSUM,
    broken,
    operands_of,
    partitions_agree,
    region_in,
    same_free_size,
    start_partition,
    type_in,
)
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.generation import Generation

__all__ = ["RULES"]

_COPIERS = frozenset({Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD})
_FILLERS = frozenset({Engine.VECTOR, Engine.GPSIMD})
_PREDICATES = frozenset({"uint8", "uint16", "uint32"})


def _tensor_copy(ins: Instruction, generation: Generation) -> None:
    dst, src = operands_of(ins)
    if ins.engine not in _COPIERS:
        raise broken(ins, "Vector, Scalar or GpSimd Engine", ins.engine, "choose one of them")
    for view in (dst, src):
        region_in(ins, view, SBUF_PSUM, "SBUF or PSUM")
        start_partition(ins, view)
    partitions_agree(ins, dst, src)
    same_free_size(ins, dst, src)
    if "packed" in (dst.dtype.kind, src.dtype.kind) and dst.dtype is not src.dtype:
        raise broken(ins, f"packed elements copied as {src.dtype}", dst.dtype, "copy them as they are", dst)
    if generation.number == 2 and ins.engine is Engine.SCALAR:
        raise broken(
            ins, "Vector or GpSimd Engine on trn1", "Scalar Engine", "use nisa.activation with op=nl.copy"
        )


def _tensor_copy_predicated(ins: Instruction, generation: Generation) -> None:
    del generation
    (dst,), (src, predicate) = ins.outs, ins.ins
    assert dst is not None  # noqa: S101 - the operands of an issued instruction
    assert predicate is not None  # noqa: S101
    for view in operands_of(ins):
        region_in(ins, view, SBUF_PSUM, "SBUF or PSUM")
        start_partition(ins, view)
    partitions_agree(ins, dst, src, predicate)
    same_free_size(ins, dst, src, predicate)
    type_in(ins, predicate, _PREDICATES, "uint8, uint16 or uint32")
    if src is None:
        if dst.dtype.kind == "packed":
            raise broken(ins, "a tensor in src for a packed type", dst.dtype, "fill a tile first", dst)
        return
    if src.dtype is not dst.dtype:
        raise broken(ins, f"src of the same type as dst ({dst.dtype})", src.dtype, "convert it first", src)
    psum = MemoryRegion.psum
    if src.storage.buffer.region is psum and predicate.storage.buffer.region is psum:
        raise broken(ins, "src or predicate in PSUM", "both", "copy one to SBUF first", predicate)


def _memset(ins: Instruction, generation: Generation) -> None:
    del generation
    (dst,) = operands_of(ins)
    if ins.engine not in _FILLERS:
        raise broken(ins, "Vector or GpSimd Engine", ins.engine, "choose one of them")
    region_in(ins, dst, SBUF_PSUM, "SBUF or PSUM")
    start_partition(ins, dst)
    value = ins.attributes["value"]
    if dst.dtype.kind == "packed" and value != 0:
        raise broken(ins, "value=0 for a packed type", f"{value}", "fill it with 0", dst)


RULES: Mapping[str, Callable[[Instruction, Generation], None]] = MappingProxyType(
    {
        **dma.RULES,
        "tensor_copy": _tensor_copy,
        "tensor_copy_predicated": _tensor_copy_predicated,
        "memset": _memset,
    }
)
"""By opcode."""
