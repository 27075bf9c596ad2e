"""Columns centered by the two cores of LNC2 together: a reduction over rows that neither core has all of.

    x [rows, columns] -> x - mean over rows [rows, columns], means [1, columns] float32

Each core has half of the rows. How the two sums of a column become one mean that both have:

    core 0                               core 1
    sums of its rows   [1, columns]      sums of its rows   [1, columns]
         |    right half ->  sendrecv  <- left half    |
    left half of means                   right half of means
         |   each stores its half in shared HBM        |
    -------------------- core_barrier ---------------------
    load all means into all partitions   the same
    subtract from its rows               the same

``sendrecv`` moves half of the sums each way, SBUF to SBUF. The barrier orders what nothing else does: without it a core
reads means that the other has not written, which is an error of the run. Sums over rows, which lie on partitions,
are products with a column of ones on the Tensor Engine.
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl

TILE = 128  # rows per tile
BANK = 512  # float32 sums per PSUM bank


@nki.jit
def center_columns(x: nl.NkiTensor) -> tuple[nl.NkiTensor, nl.NkiTensor]:
    """Launch as ``center_columns[2]``. Rows are a multiple of 256, columns an even number up to 4,096 (all of PSUM)."""
    rows, columns = x.shape
    core, other = nl.program_id(0), 1 - nl.program_id(0)
    own_rows, half = rows // 2, columns // 2
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    means = nl.ndarray((1, columns), dtype=nl.float32, buffer=nl.shared_hbm)

    mine = x[nl.ds(core * own_rows, own_rows), :]
    sums = column_sums(mine)
    received = nl.ndarray((1, half), dtype=nl.float32, buffer=nl.sbuf)
    nisa.sendrecv(
        src=sums[:, nl.ds(other * half, half)],
        dst=received,
        send_to_rank=other,
        recv_from_rank=other,
        pipe_id=0,
    )
    own = sums[:, nl.ds(core * half, half)]
    nisa.tensor_tensor(dst=received, data1=received, data2=own, op=nl.add)
    nisa.tensor_scalar(dst=received, data=received, op0=nl.multiply, operand0=1.0 / rows)
    nisa.dma_copy(dst=means[:, nl.ds(core * half, half)], src=received)
    nisa.core_barrier(data=means, cores=(0, 1))

    subtract_from_rows(out[nl.ds(core * own_rows, own_rows), :], mine, means)
    return out, means


def column_sums(x: nl.NkiTensor) -> nl.NkiTensor:
    """Sums over rows [1, columns]: 128 rows per instruction, tiles of rows added up in PSUM."""
    rows, columns = x.shape
    ones = nl.ndarray((TILE, 1), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    banks = nl.ndarray((1, columns), dtype=nl.float32, buffer=nl.psum)
    for start in range(0, rows, TILE):
        values = nl.ndarray((TILE, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=values, src=x[nl.ds(start, TILE), :])
        for first in range(0, columns, BANK):
            part = nl.ds(first, min(BANK, columns - first))
            nisa.nc_matmul(dst=banks[:, part], stationary=ones, moving=values[:, part], accumulate=start > 0)
    sums = nl.ndarray((1, columns), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=sums, src=banks)
    return sums


def subtract_from_rows(out: nl.NkiTensor, x: nl.NkiTensor, means: nl.NkiTensor) -> None:
    """``x - means``; a DMA with a stride of 0 in front brings the one row of means into every partition."""
    rows, columns = x.shape
    everywhere = nl.ndarray((TILE, columns), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=everywhere, src=means.broadcast(0, TILE))
    for start in range(0, rows, TILE):
        values = nl.ndarray((TILE, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=values, src=x[nl.ds(start, TILE), :])
        nisa.tensor_tensor(dst=values, data1=values, data2=everywhere, op=nl.subtract)
        nisa.dma_copy(dst=out[nl.ds(start, TILE), :], src=values)
