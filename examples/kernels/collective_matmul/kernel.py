"""A matrix multiplication split over ranks by its contraction, with the reduction between ranks cut into chunks.

    rank r: lhs_t [K / ranks, M], rhs [K / ranks, N] -> its rows of the sum of all lhs_t^T rhs, [M / ranks, N]

This is the row-parallel linear layer of tensor parallelism (Shoeybi et al., 2019), its result left split by rows as
sequence parallelism wants it. The result is made in chunks of columns:

    Tensor   | product of chunk 0 | product of chunk 1 | product of chunk 2 |
    DMA                           | reduce-scatter 0   | reduce-scatter 1   | reduce-scatter 2 |

Each chunk has HBM of its own, so a reduce-scatter depends on nothing that comes after its product, and runs beside the
next one; only the last is not hidden. With one chunk nothing is.
"""

from __future__ import annotations

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl

TILE = 128  # rows of a tile: of the contraction, and of the result
BANK = 512  # columns of a tile of the result: one PSUM bank of float32


@nki.jit
def collective_matmul(
    lhs_t: nl.NkiTensor, rhs: nl.NkiTensor, ranks: tuple[int, ...] = (0, 1, 2, 3), chunk: int = BANK
) -> nl.NkiTensor:
    """K / ranks is a multiple of 128, M of 128 and of the ranks; chunks of ``chunk`` columns, the last may be short."""
    size_m, size_n = lhs_t.shape[1], rhs.shape[1]
    own = size_m // len(ranks)
    out = nl.ndarray((own, size_n), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    group = ncc.ReplicaGroup([ranks])
    stationary = load_rows(lhs_t)
    for first in range(0, size_n, chunk):
        columns = nl.ds(first, min(chunk, size_n - first))
        partial = product(stationary, rhs[:, columns])
        reduced = nl.ndarray((own, partial.shape[1]), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
        ncc.reduce_scatter(srcs=[partial], dsts=[reduced], replica_group=group, collective_dim=0, op=nl.add)
        nisa.dma_copy(dst=out[:, columns], src=reduced)
    return out


def load_rows(source: nl.NkiTensor) -> nl.NkiTensor:
    """[rows, width] as [128, rows / 128, width], by one DMA."""
    tiles, width = source.shape[0] // TILE, source.shape[1]
    loaded = nl.ndarray((TILE, tiles, width), dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=loaded, src=source.reshape_dim(0, (tiles, TILE)).permute((1, 0, 2)))
    return loaded


def product(stationary: nl.NkiTensor, rhs: nl.NkiTensor) -> nl.NkiTensor:
    """This rank's share of a chunk of the result [M, width], in HBM."""
    size_m, width = stationary.shape[2], rhs.shape[1]
    partial = nl.ndarray((size_m, width), dtype=rhs.dtype, buffer=nl.shared_hbm)
    moving = load_rows(rhs)
    for row in range(0, size_m, TILE):
        for first in range(0, width, BANK):
            columns = nl.ds(first, min(BANK, width - first))
            tile = multiply(stationary[:, :, nl.ds(row, TILE)], moving[:, :, columns])
            nisa.dma_copy(dst=partial[nl.ds(row, TILE), columns], src=tile)
    return partial


def multiply(stationary: nl.NkiTensor, moving: nl.NkiTensor) -> nl.NkiTensor:
    """One tile of the product, added up in PSUM and rounded to SBUF."""
    width = moving.shape[2]
    sums = nl.ndarray((TILE, width), dtype=nl.float32, buffer=nl.psum)
    for k in range(moving.shape[1]):
        nisa.nc_matmul(dst=sums, stationary=stationary[:, k, :], moving=moving[:, k, :], accumulate=k > 0)
    tile = nl.ndarray((TILE, width), dtype=moving.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=sums)
    return tile
