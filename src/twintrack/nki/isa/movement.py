"""``nki.isa``: instructions that move data."""

from __future__ import annotations

from typing import Any

from twintrack.neuroncore.isa.instruction import Engine
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.nki.isa.constants import dge_mode as _dge
from twintrack.nki.isa.constants import engine as _engine
from twintrack.nki.isa.constants import oob_mode as _oob
from twintrack.nki.isa.issue import NkiInstruction, choose, issue
from twintrack.nki.tensor import NkiTensor

__all__ = ["dma_copy", "memset", "tensor_copy"]


def dma_copy(
    dst: NkiTensor,
    src: NkiTensor,
    priority: int | None = None,
    oob_mode: _oob = _oob.error,
    dge_mode: _dge = _dge.unknown,
    engine: _engine = _engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = src`` by a DMA, between SBUF and HBM in any direction, cast through float32 where types differ.

    Args:
        dst: as many elements as ``src``.
        src: may be indirect, as ``dst`` may.
        priority: 0 (first) to 3; NeuronCore-v4.
        oob_mode: what a dynamic index out of bounds does.
        dge_mode: who makes the descriptors; hardware from NeuronCore-v3.
        engine: which engine triggers a hardware DGE.
        name: for messages and profiles.

    Raises:
        KernelError: for PSUM operands, unequal numbers of elements, or an index out of bounds.
    """
    attributes = {
        "oob_mode": oob_mode.name,
        "dge_mode": dge_mode.name,
        "trigger": engine.name,
        "priority": priority,
    }
    return issue("dma_copy", Engine.DMA, (dst,), (src,), attributes, name)


def tensor_copy(
    dst: NkiTensor, src: NkiTensor, engine: _engine = _engine.unknown, name: str | None = None
) -> NkiInstruction:
    """``dst = src`` on chip: bits where the types agree, else through float32.

    Args:
        dst: as many partitions and elements per partition as ``src``; SBUF or PSUM.
        src: SBUF or PSUM.
        engine: vector (default), scalar or gpsimd, which cannot reach PSUM.
        name: for messages and profiles.

    Raises:
        KernelError: for operands in HBM, unequal shapes, or an engine that cannot.
    """
    return issue("tensor_copy", choose(engine, Engine.VECTOR), (dst,), (src,), {}, name)


def memset(
    dst: NkiTensor, value: Any, engine: _engine = _engine.unknown, name: str | None = None
) -> NkiInstruction:
    """``dst = value``, rounded to the type of ``dst``.

    Args:
        dst: SBUF, or PSUM on the Vector Engine.
        value: a number known when the kernel is traced.
        engine: vector (default) or gpsimd.
        name: for messages and profiles.

    Raises:
        KernelError: for a destination in HBM, or another engine.
    """
    number = value.item() if hasattr(value, "item") else value
    return issue("memset", choose(engine, Engine.VECTOR), (dst,), (), {"value": number}, name)


def in_psum(*tensors: NkiTensor | None) -> bool:
    """Whether any of these lies in PSUM, which GpSimd cannot reach."""
    return any(one is not None and one.storage.buffer.region is MemoryRegion.psum for one in tensors)
