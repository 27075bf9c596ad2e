"""A product in PSUM that is multiplied again: the Tensor Engine writes to PSUM and reads SBUF only.

The corrected kernel copies the product to SBUF in between.
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def broken(a_t: nl.NkiTensor, b: nl.NkiTensor) -> nl.NkiTensor:
    """``a_t.T @ (a_t.T @ b)`` with the first product left in PSUM."""
    rows, columns = a_t.shape[1], b.shape[1]
    out = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    left = nl.ndarray(a_t.shape, dtype=a_t.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a_t)
    right = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=right, src=b)
    product = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=product, stationary=left, moving=right)
    again = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=again, stationary=left, moving=product)
    tile = nl.ndarray(again.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=again)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def corrected(a_t: nl.NkiTensor, b: nl.NkiTensor) -> nl.NkiTensor:
    """``a_t.T @ (a_t.T @ b)`` by way of SBUF."""
    rows, columns = a_t.shape[1], b.shape[1]
    out = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    left = nl.ndarray(a_t.shape, dtype=a_t.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a_t)
    right = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=right, src=b)
    product = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=product, stationary=left, moving=right)
    middle = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=middle, src=product)
    again = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=again, stationary=left, moving=middle)
    tile = nl.ndarray(again.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=again)
    nisa.dma_copy(dst=out, src=tile)
    return out
