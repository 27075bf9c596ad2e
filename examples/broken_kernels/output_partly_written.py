"""A loop that leaves the last rows out: the result holds there whatever was in HBM before.

The corrected kernel goes to the end.
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def broken(x: nl.NkiTensor) -> nl.NkiTensor:
    """Double a matrix of 200 rows."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0] // 128 * 128, 128):
        size = min(128, x.shape[0] - start)
        tile = nl.ndarray((size, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[start : start + size])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[start : start + size], src=tile)
    return out


@nki.jit
def corrected(x: nl.NkiTensor) -> nl.NkiTensor:
    """Double a matrix of 200 rows."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 128):
        size = min(128, x.shape[0] - start)
        tile = nl.ndarray((size, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[start : start + size])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[start : start + size], src=tile)
    return out
