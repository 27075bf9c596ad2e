"""Kernels of one engine or of DMA alone whose times were published, written anew from what the publications state."""

from __future__ import annotations

from twintrack.nki import isa as nisa
from twintrack.nki import language as nl

TILE_SHAPES = ((32, 512, 128), (128, 64, 128), (128, 512, 32), (128, 512, 128))
"""``(M, N, K)`` of the mixed multiplications: one dimension small, then none."""
COUNT = 2048
"""Multiplications of the kernels on tile shapes."""


def full_tiles(out):
    """``COUNT`` multiplications of 128 x 128 x 512, operands resident."""
    return _multiply(out, ((128, 512, 128),))


def mixed_tiles(out):
    """A quarter of the multiplications with each of ``TILE_SHAPES``."""
    return _multiply(out, TILE_SHAPES)


def _multiply(out, shapes):
    stationary, moving = nl.ndarray((128, 128), nl.bfloat16), nl.ndarray((128, 512), nl.bfloat16)
    nisa.memset(stationary, 0)
    nisa.memset(moving, 0)
    product = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
    for m, n, k in shapes:
        for _ in range(COUNT // len(shapes)):
            nisa.nc_matmul(product[:m, :n], stationary[:k, :m], moving[:k, :n], accumulate=False)
    result = nl.ndarray((128, 512), nl.float32)
    nisa.tensor_copy(result, product)
    nisa.dma_copy(out, result)
    return out


def load_and_store(source, out, width):
    """16 tiles of ``[128, width]`` are loaded and stored, by hardware descriptors of two queues."""
    for column in range(0, source.shape[1], width):
        tile = nl.ndarray((128, width), nl.bfloat16)
        part = slice(column, column + width)
        nisa.dma_copy(tile, source[:, part], dge_mode=nisa.dge_mode.hwdge, engine=nisa.engine.sync)
        nisa.dma_copy(out[:, part], tile, dge_mode=nisa.dge_mode.hwdge, engine=nisa.engine.scalar)
    return out


def selective_scan(delta, u, a, b, c, ones):
    """A state-space layer as first written: states outermost, then 128 channels at a time, everything loaded anew.

    Args:
        delta: ``[channels, length]``, as ``u``.
        u: input.
        a: ``[channels, states]``.
        b: ``[states, length]``, as ``c``.
        c: output projection.
        ones: ``[1, 128]``, by which the Tensor Engine spreads a row over partitions.
    """
    out = nl.ndarray(delta.shape, nl.float32, buffer=nl.shared_hbm)
    one = _loaded(ones)
    rows = [slice(start, start + 128) for start in range(0, delta.shape[0], 128)]
    sums = [_zeros(delta.shape[1]) for _ in rows]
    for state in range(a.shape[1]):
        here = slice(state, state + 1)
        for part, total in zip(rows, sums, strict=True):
            step, data = _loaded(delta[part, :]), _loaded(u[part, :])
            weighted = _multiplied(step, data)
            _add_state(total, step, weighted, a[part, here], b[here, :], c[here, :], one)
    for part, total in zip(rows, sums, strict=True):
        nisa.dma_copy(out[part, :], total)
    return out


def selective_scan_reordered(delta, u, a, b, c, ones):
    """The same with channels outermost: what does not depend on the state is loaded and multiplied once."""
    out = nl.ndarray(delta.shape, nl.float32, buffer=nl.shared_hbm)
    one = _loaded(ones)
    for start in range(0, delta.shape[0], 128):
        part = slice(start, start + 128)
        total = _zeros(delta.shape[1])
        step, data = _loaded(delta[part, :]), _loaded(u[part, :])
        weighted = _multiplied(step, data)
        for state in range(a.shape[1]):
            here = slice(state, state + 1)
            _add_state(total, step, weighted, a[part, here], b[here, :], c[here, :], one)
        nisa.dma_copy(out[part, :], total)
    return out


def _add_state(total, step, weighted, a, b, c, ones):
    """Scan one state of 128 channels and add its share of the output."""
    length = total.shape[1]
    decay = _tile(length)
    nisa.activation(decay, nl.exp, step, scale=_loaded(a))
    scanned = _tile(length)
    rise = _multiplied(weighted, _spread(ones, _loaded(b)))
    nisa.tensor_tensor_scan(scanned, decay, rise, 0.0, nl.multiply, nl.add)
    share = _multiplied(scanned, _spread(ones, _loaded(c)))
    nisa.tensor_tensor(total, total, share, op=nl.add)


def _tile(length):
    return nl.ndarray((128, length), nl.float32)


def _loaded(source):
    tile = nl.ndarray(source.shape, nl.float32)
    nisa.dma_copy(tile, source)
    return tile


def _multiplied(one, other):
    product = _tile(one.shape[1])
    nisa.tensor_tensor(product, one, other, op=nl.multiply)
    return product


def _spread(ones, row):
    """A row on all partitions, in PSUM: multiplied with a column of ones; the Vector Engine reads it there."""
    product = nl.ndarray((128, row.shape[1]), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(product, ones, row)
    return product


def _zeros(length):
    tile = _tile(length)
    nisa.memset(tile, 0)
    return tile


def vector_add(one, other, out, width):
    """Sums of two vectors in HBM, ``[128, width]`` elements at a time."""
    size = 128 * width
    for start in range(0, one.shape[0], size):
        part = slice(start, start + size)
        left, right = (_loaded(source[part].reshape((128, width))) for source in (one, other))
        total = nl.ndarray((128, width), nl.float32)
        nisa.tensor_tensor(total, left, right, op=nl.add)
        nisa.dma_copy(out[part].reshape((128, width)), total)
    return out
