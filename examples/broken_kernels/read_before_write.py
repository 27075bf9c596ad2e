"""A border of a tile that is read and was never written: it holds what the last kernel left there.

The corrected kernel fills the tile with zeros first.
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def broken(x: nl.NkiTensor) -> nl.NkiTensor:
    """Sum of both neighbours in each row, zero beyond its ends."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows, width = x.shape
    tile = nl.ndarray((rows, width + 2), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile[:, 1 : width + 1], src=x)
    total = nl.ndarray((rows, width), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=tile[:, 0:width], data2=tile[:, 2 : width + 2], op=nl.add)
    nisa.dma_copy(dst=out, src=total)
    return out


@nki.jit
def corrected(x: nl.NkiTensor) -> nl.NkiTensor:
    """Sum of both neighbours in each row, zero beyond its ends."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows, width = x.shape
    tile = nl.ndarray((rows, width + 2), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=0)
    nisa.dma_copy(dst=tile[:, 1 : width + 1], src=x)
    total = nl.ndarray((rows, width), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=tile[:, 0:width], data2=tile[:, 2 : width + 2], op=nl.add)
    nisa.dma_copy(dst=out, src=total)
    return out
