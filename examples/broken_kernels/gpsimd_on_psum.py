"""A copy out of PSUM by GpSimd, which cannot reach it.

The corrected kernel lets the Vector Engine copy.
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def broken(a_t: nl.NkiTensor, b: nl.NkiTensor) -> nl.NkiTensor:
    """A product copied out by GpSimd."""
    rows, columns = a_t.shape[1], b.shape[1]
    out = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    stationary = nl.ndarray(a_t.shape, dtype=a_t.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=stationary, src=a_t)
    moving = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=moving, src=b)
    result = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=result, stationary=stationary, moving=moving)
    tile = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=result, engine=nisa.engine.gpsimd)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def corrected(a_t: nl.NkiTensor, b: nl.NkiTensor) -> nl.NkiTensor:
    """A product copied out by the Vector Engine."""
    rows, columns = a_t.shape[1], b.shape[1]
    out = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    stationary = nl.ndarray(a_t.shape, dtype=a_t.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=stationary, src=a_t)
    moving = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=moving, src=b)
    result = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=result, stationary=stationary, moving=moving)
    tile = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=result, engine=nisa.engine.vector)
    nisa.dma_copy(dst=out, src=tile)
    return out
