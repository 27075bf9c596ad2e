"""Rows that are written and then read at indices known only at run time: the compiler cannot see that they meet.

Found by ``--check all``. In the corrected kernel the read waits for the write.
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def broken(cache: nl.NkiTensor, new: nl.NkiTensor, slots: nl.NkiTensor, wanted: nl.NkiTensor) -> nl.NkiTensor:
    """Put new rows into a cache and take out wanted ones."""
    count, width = new.shape
    out = nl.ndarray(new.shape, dtype=new.dtype, buffer=nl.shared_hbm)
    rows = nl.ndarray(new.shape, dtype=new.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=rows, src=new)
    to, of = (nl.ndarray((count, 1), dtype=nl.int32, buffer=nl.sbuf) for _ in range(2))
    nisa.dma_copy(dst=to, src=slots)
    nisa.dma_copy(dst=of, src=wanted)
    pattern = [[width, count], [1, width]]
    found = nl.ndarray(new.shape, dtype=new.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=cache.ap(pattern=pattern, vector_offset=to), src=rows)
    nisa.dma_copy(dst=found, src=cache.ap(pattern=pattern, vector_offset=of))
    nisa.dma_copy(dst=out, src=found)
    return out


@nki.jit
def corrected(
    cache: nl.NkiTensor, new: nl.NkiTensor, slots: nl.NkiTensor, wanted: nl.NkiTensor
) -> nl.NkiTensor:
    """Put new rows into a cache and take out wanted ones."""
    count, width = new.shape
    out = nl.ndarray(new.shape, dtype=new.dtype, buffer=nl.shared_hbm)
    rows = nl.ndarray(new.shape, dtype=new.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=rows, src=new)
    to, of = (nl.ndarray((count, 1), dtype=nl.int32, buffer=nl.sbuf) for _ in range(2))
    nisa.dma_copy(dst=to, src=slots)
    nisa.dma_copy(dst=of, src=wanted)
    pattern = [[width, count], [1, width]]
    found = nl.ndarray(new.shape, dtype=new.dtype, buffer=nl.sbuf)
    written = nisa.dma_copy(dst=cache.ap(pattern=pattern, vector_offset=to), src=rows)
    taken = nisa.dma_copy(dst=found, src=cache.ap(pattern=pattern, vector_offset=of))
    taken.depends_on(written)
    nisa.dma_copy(dst=out, src=found)
    return out
