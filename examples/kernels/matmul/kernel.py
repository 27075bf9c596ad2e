"""Matrix multiplication in four steps: from basic tiles to blocks over every dimension.

    out [M, N] = lhs_t [K, M] transposed times rhs [K, N]

The Tensor Engine contracts over partitions, so both operands come with K first. One instruction takes a stationary
tile of 128 x 128 and a moving tile of 128 x 512, and adds 128 x 512 float32 sums to a PSUM bank. The steps differ in
how often the same element comes from HBM:

    matmul_basic       every tile is loaded for every instruction that needs it
    matmul_hoisted     the stationary tiles of a row of results are loaded once
    matmul_block_free  several rows and columns of results share what is loaded
    matmul_block_all   as before, and blocked over K: sums wait in SBUF, so blocks may be as wide as SBUF allows

M and K are multiples of 128, N of 512; blocks that do not divide evenly are cut short.
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl

TILE_K = 128  # partitions: the contraction
TILE_M = 128  # columns of the stationary tile, partitions of the result
TILE_N = 512  # columns of the moving tile: one PSUM bank of float32


@nki.jit
def matmul_basic(lhs_t: nl.NkiTensor, rhs: nl.NkiTensor) -> nl.NkiTensor:
    """Three loops over tiles; both operands loaded in the innermost."""
    size_k, size_m, size_n = sizes(lhs_t, rhs)
    out = nl.ndarray((size_m, size_n), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for m in range(size_m // TILE_M):
        for n in range(size_n // TILE_N):
            sums = nl.ndarray((TILE_M, TILE_N), dtype=nl.float32, buffer=nl.psum)
            for k in range(size_k // TILE_K):
                stationary = nl.ndarray((TILE_K, TILE_M), dtype=lhs_t.dtype, buffer=nl.sbuf)
                moving = nl.ndarray((TILE_K, TILE_N), dtype=rhs.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=stationary, src=lhs_t[nl.ds(k * TILE_K, TILE_K), nl.ds(m * TILE_M, TILE_M)])
                nisa.dma_copy(dst=moving, src=rhs[nl.ds(k * TILE_K, TILE_K), nl.ds(n * TILE_N, TILE_N)])
                nisa.nc_matmul(dst=sums, stationary=stationary, moving=moving)
            store_tile(out, sums, m, n)
    return out


@nki.jit
def matmul_hoisted(lhs_t: nl.NkiTensor, rhs: nl.NkiTensor) -> nl.NkiTensor:
    """The stationary tiles of a row of results are loaded before the loop over N, with one DMA."""
    size_k, size_m, size_n = sizes(lhs_t, rhs)
    out = nl.ndarray((size_m, size_n), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for m in range(size_m // TILE_M):
        stationary = load_block(lhs_t, 0, size_k, m * TILE_M, TILE_M)
        for n in range(size_n // TILE_N):
            moving = load_block(rhs, 0, size_k, n * TILE_N, TILE_N)
            sums = nl.ndarray((TILE_M, TILE_N), dtype=nl.float32, buffer=nl.psum)
            multiply(sums, stationary, 0, moving, 0)
            store_tile(out, sums, m, n)
    return out


@nki.jit
def matmul_block_free(
    lhs_t: nl.NkiTensor, rhs: nl.NkiTensor, tiles_m: int = 4, tiles_n: int = 2
) -> nl.NkiTensor:
    """``tiles_m x tiles_n`` tiles of results per pair of loads; each load reaches over the whole of K."""
    size_k, size_m, size_n = sizes(lhs_t, rhs)
    out = nl.ndarray((size_m, size_n), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for first_m in range(0, size_m // TILE_M, tiles_m):
        rows = min(tiles_m, size_m // TILE_M - first_m)
        stationary = load_block(lhs_t, 0, size_k, first_m * TILE_M, rows * TILE_M)
        for first_n in range(0, size_n // TILE_N, tiles_n):
            columns = min(tiles_n, size_n // TILE_N - first_n)
            moving = load_block(rhs, 0, size_k, first_n * TILE_N, columns * TILE_N)
            for m in range(rows):
                for n in range(columns):
                    sums = nl.ndarray((TILE_M, TILE_N), dtype=nl.float32, buffer=nl.psum)
                    multiply(sums, stationary, m, moving, n)
                    store_tile(out, sums, first_m + m, first_n + n)
    return out


@nki.jit
def matmul_block_all(
    lhs_t: nl.NkiTensor, rhs: nl.NkiTensor, tiles_m: int = 16, tiles_n: int = 4, tiles_k: int = 4
) -> nl.NkiTensor:
    """Blocks over K too: what a block adds goes from PSUM to float32 sums in SBUF, results are stored a row at a time.

    SBUF then holds blocks of ``tiles_k`` tiles of K however long K is, so ``tiles_m`` and ``tiles_n`` can grow, and
    with them the times that an element is used per load.
    """
    size_k, size_m, size_n = sizes(lhs_t, rhs)
    out = nl.ndarray((size_m, size_n), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for first_n in range(0, size_n // TILE_N, tiles_n):
        columns = min(tiles_n, size_n // TILE_N - first_n)
        for first_m in range(0, size_m // TILE_M, tiles_m):
            rows = min(tiles_m, size_m // TILE_M - first_m)
            result = nl.ndarray((TILE_M, rows, columns * TILE_N), dtype=nl.float32, buffer=nl.sbuf)
            for first_k in range(0, size_k // TILE_K, tiles_k):
                depth = min(tiles_k, size_k // TILE_K - first_k) * TILE_K
                moving = load_block(rhs, first_k * TILE_K, depth, first_n * TILE_N, columns * TILE_N)
                stationary = load_block(lhs_t, first_k * TILE_K, depth, first_m * TILE_M, rows * TILE_M)
                add_block(result, stationary, moving, first=first_k == 0)
            for m in range(rows):
                store_row(out, result[:, m, :], (first_m + m) * TILE_M, first_n * TILE_N)
    return out


def sizes(lhs_t: nl.NkiTensor, rhs: nl.NkiTensor) -> tuple[int, int, int]:
    """K, M and N; whole tiles only, for a rest would be left out of the sums."""
    size_k, size_m = lhs_t.shape
    size_n = rhs.shape[1]
    assert size_k == rhs.shape[0], "lhs_t and rhs must have the same K"
    assert size_k % TILE_K == 0, "K must be a multiple of 128"
    assert size_m % TILE_M == 0, "M must be a multiple of 128"
    assert size_n % TILE_N == 0, "N must be a multiple of 512"
    return size_k, size_m, size_n


def load_block(source: nl.NkiTensor, start_k: int, depth: int, start: int, width: int) -> nl.NkiTensor:
    """``depth x width`` elements of an operand as [128, depth / 128, width], by one DMA."""
    tiles = depth // TILE_K
    block = nl.ndarray((TILE_K, tiles, width), dtype=source.dtype, buffer=nl.sbuf)
    rows = source[nl.ds(start_k, depth), nl.ds(start, width)]
    nisa.dma_copy(dst=block, src=rows.reshape_dim(0, (tiles, TILE_K)).permute((1, 0, 2)))
    return block


def multiply(sums: nl.NkiTensor, stationary: nl.NkiTensor, m: int, moving: nl.NkiTensor, n: int) -> None:
    """One tile of results over all of K that the blocks hold; the first instruction overwrites, the others add."""
    for k in range(stationary.shape[1]):
        nisa.nc_matmul(
            dst=sums,
            stationary=stationary[:, k, nl.ds(m * TILE_M, TILE_M)],
            moving=moving[:, k, nl.ds(n * TILE_N, TILE_N)],
        )


def add_block(result: nl.NkiTensor, stationary: nl.NkiTensor, moving: nl.NkiTensor, first: bool) -> None:
    """Add the products of two blocks to the sums in SBUF; the first block sets them."""
    for m in range(stationary.shape[2] // TILE_M):
        for n in range(moving.shape[2] // TILE_N):
            sums = nl.ndarray((TILE_M, TILE_N), dtype=nl.float32, buffer=nl.psum)
            multiply(sums, stationary, m, moving, n)
            part = result[:, m, nl.ds(n * TILE_N, TILE_N)]
            if first:
                nisa.tensor_copy(dst=part, src=sums)
            else:
                nisa.tensor_tensor(dst=part, data1=part, data2=sums, op=nl.add)


def store_tile(out: nl.NkiTensor, sums: nl.NkiTensor, m: int, n: int) -> None:
    """Round one tile of sums to the output's type in SBUF, for a DMA does not read PSUM, and store it."""
    rounded = nl.ndarray((TILE_M, TILE_N), dtype=out.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=rounded, src=sums)
    nisa.dma_copy(dst=out[nl.ds(m * TILE_M, TILE_M), nl.ds(n * TILE_N, TILE_N)], src=rounded)


def store_row(out: nl.NkiTensor, sums: nl.NkiTensor, row: int, column: int) -> None:
    """Round a row of finished tiles and store it with one long DMA."""
    width = sums.shape[-1]
    rounded = nl.ndarray((TILE_M, width), dtype=out.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=rounded, src=sums)
    nisa.dma_copy(dst=out[nl.ds(row, TILE_M), nl.ds(column, width)], src=rounded)
