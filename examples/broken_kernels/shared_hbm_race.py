"""A core that reads what the other one writes, with nothing that makes it wait. Found by ``--check all``.

The corrected kernel has a barrier between them.
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def broken(x: nl.NkiTensor, shared: nl.NkiTensor) -> nl.NkiTensor:
    """Swap halves through memory that both cores share."""
    core, half = nl.program_id(0), x.shape[0] // 2
    other = 1 - core
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((half, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[core * half : (core + 1) * half])
    nisa.dma_copy(dst=shared[core * half : (core + 1) * half], src=tile)
    theirs = nl.ndarray((half, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=theirs, src=shared[other * half : (other + 1) * half])
    nisa.dma_copy(dst=out[core * half : (core + 1) * half], src=theirs)
    return out


@nki.jit
def corrected(x: nl.NkiTensor, shared: nl.NkiTensor) -> nl.NkiTensor:
    """Swap halves through memory that both cores share."""
    core, half = nl.program_id(0), x.shape[0] // 2
    other = 1 - core
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((half, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[core * half : (core + 1) * half])
    nisa.dma_copy(dst=shared[core * half : (core + 1) * half], src=tile)
    nisa.core_barrier(shared, (0, 1))
    theirs = nl.ndarray((half, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=theirs, src=shared[other * half : (other + 1) * half])
    nisa.dma_copy(dst=out[core * half : (core + 1) * half], src=theirs)
    return out
