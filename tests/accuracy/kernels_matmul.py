"""Matrix multiplications whose times were published, written anew from what the publications state of them.

All take the left operand transposed, ``[K, M]``, and return ``[M, N]`` in bfloat16; tiles are 128 x 128 (stationary)
and 128 x 512 (moving), products of one output tile are accumulated in PSUM.
"""

from __future__ import annotations

from twintrack.nki import isa as nisa
from twintrack.nki import language as nl

TILE_M, TILE_K, TILE_N = 128, 128, 512


def _load(source, row, column, width):
    """A tile of ``TILE_K`` rows and ``width`` columns, in a place of its own."""
    tile = nl.ndarray((TILE_K, width), nl.bfloat16)
    nisa.dma_copy(tile, source[row : row + TILE_K, column : column + width])
    return tile


def _store(out, product, row, column):
    """A finished product, from PSUM by way of SBUF."""
    tile = nl.ndarray((TILE_M, TILE_N), nl.bfloat16)
    nisa.tensor_copy(tile, product)
    nisa.dma_copy(out[row : row + TILE_M, column : column + TILE_N], tile)


def _product():
    return nl.ndarray((TILE_M, TILE_N), nl.float32, buffer=nl.psum)


def _result(left, right):
    return nl.ndarray((left.shape[1], right.shape[1]), nl.bfloat16, buffer=nl.shared_hbm)


def tiled(left, right, left_loads=None):
    """Both operands of every multiplication are loaded for it.

    Args:
        left: transposed.
        right: operand.
        left_loads: how many times each tile of ``left`` is loaded; afterwards it is taken from the last load. For
            every column of output tiles where ``None``.
    """
    (depth, m), n = left.shape, right.shape[1]
    out = _result(left, right)
    for row in range(0, m, TILE_M):
        kept = {}
        for at, column in enumerate(range(0, n, TILE_N)):
            product = _product()
            for k in range(0, depth, TILE_K):
                if left_loads is None or at < left_loads:
                    kept[k] = _load(left, k, row, TILE_M)
                moving = _load(right, k, column, TILE_N)
                nisa.nc_matmul(product, kept[k], moving, accumulate=k > 0)
            _store(out, product, row, column)
    return out


def blocked(left, right, block_m, block_n):
    """Blocks of output tiles, rows of blocks outermost; operands of a block are loaded tile by tile, once.

    With blocks of one tile in M, loads of the left operand are hoisted out of the loop over N.
    """
    m, n = left.shape[1], right.shape[1]
    out = _result(left, right)
    for row in range(0, m, TILE_M * block_m):
        lefts = [_column_of_tiles(left, row + TILE_M * at, TILE_M) for at in range(block_m)]
        for column in range(0, n, TILE_N * block_n):
            rights = [_column_of_tiles(right, column + TILE_N * at, TILE_N) for at in range(block_n)]
            _multiply_block(out, lefts, rights, row, column)
    return out


def blocked_columns_first(left, right, block_m, block_n):
    """The same with columns of blocks outermost: the right operand is loaded once altogether."""
    m, n = left.shape[1], right.shape[1]
    out = _result(left, right)
    for column in range(0, n, TILE_N * block_n):
        rights = [_column_of_tiles(right, column + TILE_N * at, TILE_N) for at in range(block_n)]
        for row in range(0, m, TILE_M * block_m):
            lefts = [_column_of_tiles(left, row + TILE_M * at, TILE_M) for at in range(block_m)]
            _multiply_block(out, lefts, rights, row, column)
    return out


def row_loads(left, right, block_m, block_n):
    """Columns of blocks outermost; each load brings a row of a block's tiles: longer stretches per partition."""
    m, n = left.shape[1], right.shape[1]
    out = _result(left, right)
    for column in range(0, n, TILE_N * block_n):
        wide = _column_of_tiles(right, column, TILE_N * block_n)
        rights = [[one[:, _part(at, TILE_N)] for one in wide] for at in range(block_n)]
        for row in range(0, m, TILE_M * block_m):
            tall = _column_of_tiles(left, row, TILE_M * block_m)
            lefts = [[one[:, _part(at, TILE_M)] for one in tall] for at in range(block_m)]
            _multiply_block(out, lefts, rights, row, column)
    return out


def blocked_in_three(left, right, block_m, block_n, block_k):
    """K is blocked too: sums of a block stay in SBUF until all of K was added; loads are as wide as a block."""
    (depth, m), n = left.shape, right.shape[1]
    out = _result(left, right)
    for column in range(0, n, TILE_N * block_n):
        sums = {}
        for k in range(0, depth, TILE_K * block_k):
            wide = [_load(right, k + TILE_K * at, column, TILE_N * block_n) for at in range(block_k)]
            for row in range(0, m, TILE_M * block_m):
                tall = [_load(left, k + TILE_K * at, row, TILE_M * block_m) for at in range(block_k)]
                for at_n in range(block_n):
                    for at_m in range(block_m):
                        product = _product()
                        for at, (stationary, moving) in enumerate(zip(tall, wide, strict=True)):
                            nisa.nc_matmul(
                                product,
                                stationary[:, _part(at_m, TILE_M)],
                                moving[:, _part(at_n, TILE_N)],
                                accumulate=at > 0,
                            )
                        _add(sums, (row + TILE_M * at_m, at_n), product)
        for row in range(0, m, TILE_M):
            whole = nl.ndarray((TILE_M, TILE_N * block_n), nl.bfloat16)
            for at_n in range(block_n):
                nisa.tensor_copy(whole[:, _part(at_n, TILE_N)], sums[row, at_n])
            nisa.dma_copy(out[row : row + TILE_M, column : column + TILE_N * block_n], whole)
    return out


def _add(sums, key, product):
    """Add a product to its sum, which starts at zero."""
    if key not in sums:
        sums[key] = nl.ndarray((TILE_M, TILE_N), nl.bfloat16)
        nisa.memset(sums[key], 0, engine=nisa.engine.gpsimd)
    nisa.tensor_tensor(sums[key], sums[key], product, op=nl.add)


def _column_of_tiles(source, column, width):
    """One load per ``TILE_K`` rows, over all rows."""
    return [_load(source, row, column, width) for row in range(0, source.shape[0], TILE_K)]


def _part(at, width):
    return slice(at * width, (at + 1) * width)


def _multiply_block(out, lefts, rights, row, column):
    for at_m, left in enumerate(lefts):
        for at_n, right in enumerate(rights):
            product = _product()
            for at, (stationary, moving) in enumerate(zip(left, right, strict=True)):
                nisa.nc_matmul(product, stationary, moving, accumulate=at > 0)
            _store(out, product, row + TILE_M * at_m, column + TILE_N * at_n)
