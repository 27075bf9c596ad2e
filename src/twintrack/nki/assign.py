"""``tensor[...] = value``: a copy by the instruction that serves where source and destination lie."""

from __future__ import annotations

from twintrack.neuroncore.memory.generation import PARTITIONS
from twintrack.nki.context import current_core
from twintrack.nki.tensor import NkiTensor

__all__ = ["assign"]


def assign(dst: NkiTensor, value: NkiTensor | float) -> None:
    """Copy a tensor or a number to a view.

    Numbers are set by ``memset`` on chip, and by way of a tile and DMAs in HBM. Tensors are copied by ``tensor_copy``
    on chip, by a DMA otherwise; between PSUM and HBM by way of SBUF, as the hardware must.

    Raises:
        KernelError: if shapes or regions do not allow it.
    """
    from twintrack.nki import isa
    from twintrack.nki import language as nl

    if not isinstance(value, NkiTensor):
        if dst.storage.buffer.on_chip:
            isa.memset(dst, value)
        else:
            _fill(dst, value)
        return
    if dst.storage.buffer.on_chip and value.storage.buffer.on_chip:
        isa.tensor_copy(dst, value)
        return
    if value.buffer == "psum":
        tile = nl.ndarray(value.shape, value.dtype, buffer=nl.sbuf)
        isa.tensor_copy(tile, value)
        isa.dma_copy(dst, tile)
    elif dst.buffer == "psum":
        tile = nl.ndarray(dst.shape, value.dtype, buffer=nl.sbuf)
        isa.dma_copy(tile, value)
        isa.tensor_copy(dst, tile)
    else:
        isa.dma_copy(dst, value)


def _fill(dst: NkiTensor, value: float) -> None:
    """Fill a view of HBM: parts that fit one tile, each by a DMA from a tile of the number."""
    from twintrack.nki import isa
    from twintrack.nki import language as nl

    room = current_core().generation.sbuf_partition_bytes // dst.dtype.bytes
    rows = dst.shape[0]
    if rows > PARTITIONS:
        for start in range(0, rows, PARTITIONS):
            _fill(dst.slice(0, start, min(start + PARTITIONS, rows)), value)
        return
    if dst.free_size > room:  # the outermost free dimension in as few parts as fit
        step = max(1, room // (dst.free_size // dst.shape[1]))
        for start in range(0, dst.shape[1], step):
            part = dst.slice(1, start, min(start + step, dst.shape[1]))
            _fill(part if step > 1 or part.free_size <= room else part.select(1, 0), value)
        return
    tile = nl.ndarray(dst.shape, dst.dtype, buffer=nl.sbuf)
    isa.memset(tile, value)
    isa.dma_copy(dst, tile)
