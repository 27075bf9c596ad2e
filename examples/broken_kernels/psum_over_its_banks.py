"""Nine results of one PSUM bank each that are all live: PSUM has eight banks.

The corrected kernel copies each result out before it makes the next.
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def broken(a_t: nl.NkiTensor, b: nl.NkiTensor) -> nl.NkiTensor:
    """All products first, then all copies."""
    rows, columns, width = a_t.shape[1], b.shape[1], 512
    out = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    stationary = nl.ndarray(a_t.shape, dtype=a_t.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=stationary, src=a_t)
    moving = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=moving, src=b)
    results = []
    for start in range(0, columns, width):
        result = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=result, stationary=stationary, moving=moving[:, start : start + width])
        results.append(result)
    for at, result in enumerate(results):
        tile = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=tile, src=result)
        nisa.dma_copy(dst=out[:, at * width : (at + 1) * width], src=tile)
    return out


@nki.jit
def corrected(a_t: nl.NkiTensor, b: nl.NkiTensor) -> nl.NkiTensor:
    """Each product is copied out before the next."""
    rows, columns, width = a_t.shape[1], b.shape[1], 512
    out = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    stationary = nl.ndarray(a_t.shape, dtype=a_t.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=stationary, src=a_t)
    moving = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=moving, src=b)
    for start in range(0, columns, width):
        result = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=result, stationary=stationary, moving=moving[:, start : start + width])
        tile = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=tile, src=result)
        nisa.dma_copy(dst=out[:, start : start + width], src=tile)
    return out
