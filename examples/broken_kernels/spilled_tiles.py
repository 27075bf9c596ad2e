"""Tiles that do not fit in SBUF together: the compiler would move some to HBM and back. Refused by ``--strict``.

The corrected kernel loads each tile when it is needed.
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def broken(x: nl.NkiTensor) -> nl.NkiTensor:
    """Sum of all tiles of 64 KiB per partition, loaded beforehand."""
    out = nl.ndarray(x.shape[1:], dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = []
    for at in range(x.shape[0]):
        tile = nl.ndarray(x.shape[1:], dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[at])
        tiles.append(tile)
    for tile in tiles[1:]:
        nisa.tensor_tensor(dst=tiles[0], data1=tiles[0], data2=tile, op=nl.add)
    nisa.dma_copy(dst=out, src=tiles[0])
    return out


@nki.jit
def corrected(x: nl.NkiTensor) -> nl.NkiTensor:
    """Sum of all tiles, one loaded at a time."""
    out = nl.ndarray(x.shape[1:], dtype=x.dtype, buffer=nl.shared_hbm)
    total = nl.ndarray(x.shape[1:], dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=total, src=x[0])
    for at in range(1, x.shape[0]):
        tile = nl.ndarray(x.shape[1:], dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[at])
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
    nisa.dma_copy(dst=out, src=total)
    return out
