"""``tensor[...] = value``: a copy by the instruction that serves where source and destination lie."""

from __future__ import annotations

from twintrack.nki.tensor import NkiTensor

__all__ = ["assign"]


def assign(dst: NkiTensor, value: NkiTensor | float) -> None:
    """Copy a tensor or a number to a view.

    Numbers are set by ``memset`` on chip, and by way of a tile and a DMA in HBM. Tensors are copied by ``tensor_copy``
    on chip, by a DMA otherwise; from PSUM to HBM by way of SBUF, as the hardware must.

    Raises:
        KernelError: if shapes or regions do not allow it.
    """
    from twintrack.nki import isa
    from twintrack.nki import language as nl

    if not isinstance(value, NkiTensor):
        if dst.storage.buffer.on_chip:
            isa.memset(dst, value)
            return
        value = nl.full(dst.shape, value, dst.dtype)
    on_chip = dst.storage.buffer.on_chip and value.storage.buffer.on_chip
    if on_chip:
        isa.tensor_copy(dst, value)
        return
    if value.buffer == "psum":
        tile = nl.ndarray(value.shape, value.dtype, buffer=nl.sbuf)
        isa.tensor_copy(tile, value)
        value = tile
    isa.dma_copy(dst, value)
