"""A reshape that would move elements from one partition to another: partitions are separate memories.

The corrected kernel reshapes in HBM, where memory is flat, and loads the result.
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def broken(x: nl.NkiTensor) -> nl.NkiTensor:
    """Sum pairs of rows of a tile seen as half as many rows."""
    half, width = x.shape[0] // 2, x.shape[1]
    out = nl.ndarray((half, width), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    pairs = tile.reshape((half, 2, width))
    total = nl.ndarray((half, width), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=pairs[:, 0], data2=pairs[:, 1], op=nl.add)
    nisa.dma_copy(dst=out, src=total)
    return out


@nki.jit
def corrected(x: nl.NkiTensor) -> nl.NkiTensor:
    """Sum pairs of rows, each pair loaded into one partition."""
    half, width = x.shape[0] // 2, x.shape[1]
    out = nl.ndarray((half, width), dtype=x.dtype, buffer=nl.shared_hbm)
    pairs = nl.ndarray((half, 2, width), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=pairs, src=x.reshape((half, 2, width)))
    total = nl.ndarray((half, width), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=pairs[:, 0], data2=pairs[:, 1], op=nl.add)
    nisa.dma_copy(dst=out, src=total)
    return out
