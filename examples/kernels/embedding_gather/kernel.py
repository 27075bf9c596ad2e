"""Rows of an embedding table by token, gathered by the DMA engines: no compute engine touches the data.

    table [vocabulary, width], ids [tokens] int32 -> table[ids] [tokens, width]

128 tokens at a time. Their ids are loaded one to a partition, and one indirect DMA then reads row ``ids[p]`` of the
table into partition ``p``:

    ids  [P, 1]   | 17 |        rows [P, width]   | table[17, :] |
                  |  3 |   ->                     | table[ 3, :] |
                  | .. |                          | ..           |

An id outside the table is an error of the run, as it is on the device (``oob_mode.error``).
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def embedding_gather(table: nl.NkiTensor, ids: nl.NkiTensor) -> nl.NkiTensor:
    """A row must fit in a partition; the number of tokens is free."""
    tokens, width = ids.shape[0], table.shape[1]
    out = nl.ndarray((tokens, width), dtype=table.dtype, buffer=nl.shared_hbm)
    for start in range(0, tokens, nl.tile_size.pmax):
        size = min(nl.tile_size.pmax, tokens - start)
        index = nl.ndarray((size, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.dma_copy(dst=index, src=ids[nl.ds(start, size)].reshape((size, 1)))
        rows = nl.ndarray((size, width), dtype=table.dtype, buffer=nl.sbuf)
        gathered = table.ap(pattern=[[width, size], [1, width]], vector_offset=index, indirect_dim=0)
        nisa.dma_copy(dst=rows, src=gathered, oob_mode=nisa.oob_mode.error)
        nisa.dma_copy(dst=out[nl.ds(start, size), :], src=rows)
    return out
