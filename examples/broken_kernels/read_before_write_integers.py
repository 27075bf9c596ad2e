"""An integer counter that nobody set to zero. No NaN betrays it: on the device the sum is merely wrong.

The corrected kernel sets it to zero.
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def broken(x: nl.NkiTensor) -> nl.NkiTensor:
    """Sum of integers in each row."""
    out = nl.ndarray((x.shape[0], 1), dtype=nl.int32, buffer=nl.shared_hbm)
    rows, width = x.shape
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    count = nl.ndarray((rows, 1), dtype=nl.int32, buffer=nl.sbuf, name="count")
    for column in range(width):
        nisa.tensor_tensor(dst=count, data1=count, data2=tile[:, column : column + 1], op=nl.add)
    nisa.dma_copy(dst=out, src=count)
    return out


@nki.jit
def corrected(x: nl.NkiTensor) -> nl.NkiTensor:
    """Sum of integers in each row."""
    out = nl.ndarray((x.shape[0], 1), dtype=nl.int32, buffer=nl.shared_hbm)
    rows, width = x.shape
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    count = nl.ndarray((rows, 1), dtype=nl.int32, buffer=nl.sbuf, name="count")
    nisa.memset(dst=count, value=0)
    for column in range(width):
        nisa.tensor_tensor(dst=count, data1=count, data2=tile[:, column : column + 1], op=nl.add)
    nisa.dma_copy(dst=out, src=count)
    return out
