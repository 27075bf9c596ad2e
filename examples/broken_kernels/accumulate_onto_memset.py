"""A bias put into PSUM for a matrix multiplication to add to: that is no documented start of an accumulation.

The corrected kernel starts at the product and adds the bias on the way out.
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def broken(a_t: nl.NkiTensor, b: nl.NkiTensor) -> nl.NkiTensor:
    """``a_t.T @ b + 1`` by way of PSUM."""
    rows, columns = a_t.shape[1], b.shape[1]
    out = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    stationary = nl.ndarray(a_t.shape, dtype=a_t.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=stationary, src=a_t)
    moving = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=moving, src=b)
    result = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum)
    nisa.memset(dst=result, value=1.0)
    nisa.nc_matmul(dst=result, stationary=stationary, moving=moving, accumulate=True)
    tile = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=result)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def corrected(a_t: nl.NkiTensor, b: nl.NkiTensor) -> nl.NkiTensor:
    """``a_t.T @ b + 1``, the product first."""
    rows, columns = a_t.shape[1], b.shape[1]
    out = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    stationary = nl.ndarray(a_t.shape, dtype=a_t.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=stationary, src=a_t)
    moving = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=moving, src=b)
    result = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=result, stationary=stationary, moving=moving, accumulate=False)
    tile = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=tile, data=result, op0=nl.add, operand0=1.0)
    nisa.dma_copy(dst=out, src=tile)
    return out
