"""A gather by an index that the table does not have.

The corrected kernel gives such rows zeros: it fills the tile and lets the DMA skip what is out of bounds.
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def broken(table: nl.NkiTensor, ids: nl.NkiTensor) -> nl.NkiTensor:
    """Rows of a table by index."""
    count, width = ids.shape[0], table.shape[1]
    out = nl.ndarray((count, width), dtype=table.dtype, buffer=nl.shared_hbm)
    index = nl.ndarray((count, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=index, src=ids)
    rows = nl.ndarray((count, width), dtype=table.dtype, buffer=nl.sbuf)
    gathered = table.ap(pattern=[[width, count], [1, width]], vector_offset=index, indirect_dim=0)
    nisa.dma_copy(dst=rows, src=gathered)
    nisa.dma_copy(dst=out, src=rows)
    return out


@nki.jit
def corrected(table: nl.NkiTensor, ids: nl.NkiTensor) -> nl.NkiTensor:
    """Rows of a table by index, zeros where there is none."""
    count, width = ids.shape[0], table.shape[1]
    out = nl.ndarray((count, width), dtype=table.dtype, buffer=nl.shared_hbm)
    index = nl.ndarray((count, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=index, src=ids)
    rows = nl.ndarray((count, width), dtype=table.dtype, buffer=nl.sbuf)
    gathered = table.ap(pattern=[[width, count], [1, width]], vector_offset=index, indirect_dim=0)
    nisa.memset(dst=rows, value=0)
    nisa.dma_copy(dst=rows, src=gathered, oob_mode=nisa.oob_mode.skip)
    nisa.dma_copy(dst=out, src=rows)
    return out
