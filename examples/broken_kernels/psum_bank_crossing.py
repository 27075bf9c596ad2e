"""Results that begin in one PSUM bank and end in the next.

A bank holds 512 float32 per partition. The corrected kernel writes to the second bank of the tile.
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def broken(a_t: nl.NkiTensor, b: nl.NkiTensor) -> nl.NkiTensor:
    """Multiply into columns 256 to 767 of a tile in PSUM."""
    rows, columns = a_t.shape[1], b.shape[1]
    out = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    stationary = nl.ndarray(a_t.shape, dtype=a_t.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=stationary, src=a_t)
    moving = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=moving, src=b)
    result = nl.ndarray((rows, 1024), dtype=nl.float32, buffer=nl.psum)
    part = result[:, 256:768]
    nisa.nc_matmul(dst=part, stationary=stationary, moving=moving)
    tile = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=part)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def corrected(a_t: nl.NkiTensor, b: nl.NkiTensor) -> nl.NkiTensor:
    """Multiply into columns 512 to 1023 of a tile in PSUM."""
    rows, columns = a_t.shape[1], b.shape[1]
    out = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    stationary = nl.ndarray(a_t.shape, dtype=a_t.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=stationary, src=a_t)
    moving = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=moving, src=b)
    result = nl.ndarray((rows, 1024), dtype=nl.float32, buffer=nl.psum)
    part = result[:, 512:1024]
    nisa.nc_matmul(dst=part, stationary=stationary, moving=moving)
    tile = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=part)
    nisa.dma_copy(dst=out, src=tile)
    return out
