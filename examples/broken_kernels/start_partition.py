"""An instruction on partitions 16 to 47: engines begin at partition 0, 32, 64 or 96.

The corrected kernel gives the rows a tile of their own.
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def broken(x: nl.NkiTensor) -> nl.NkiTensor:
    """Double rows 16 to 47 where they lie."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    middle = tile[16:48]
    nisa.tensor_scalar(dst=middle, data=middle, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def corrected(x: nl.NkiTensor) -> nl.NkiTensor:
    """Double rows 16 to 47 in a tile that begins at partition 0."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    middle = nl.ndarray((32, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=middle, src=x[16:48])
    nisa.tensor_scalar(dst=middle, data=middle, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out[0:16], src=x[0:16])
    nisa.dma_copy(dst=out[16:48], src=middle)
    nisa.dma_copy(dst=out[48:], src=x[48:])
    return out
