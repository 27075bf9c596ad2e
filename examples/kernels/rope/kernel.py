"""Rotary position embedding (Su et al., 2021), pairs half a head apart as Llama has them.

    x [heads, positions, width], cos and sin [positions, width / 2], float32

    out[..., :half] = x[..., :half] * cos - x[..., half:] * sin
    out[..., half:] = x[..., half:] * cos + x[..., :half] * sin

Positions lie on partitions, so that a tile of cos and sin is loaded once and serves all heads: it is read with a
stride of 0 over the heads, and nothing is copied. All heads of 128 positions come in one DMA:

    partition = position   free: | head 0: half, half | head 1: half, half | ...

One half of the result is computed by the Vector Engine and the other by the GpSimd Engine, at the same time.
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def rope(x: nl.NkiTensor, cos: nl.NkiTensor, sin: nl.NkiTensor) -> nl.NkiTensor:
    """The width of a head is even; the last tile of positions may be short."""
    heads, positions, width = x.shape
    half = width // 2
    out = nl.ndarray((heads, positions, width), dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, positions, nl.tile_size.pmax):
        size = min(nl.tile_size.pmax, positions - start)
        values = nl.ndarray((size, heads, width), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=values, src=x[:, nl.ds(start, size), :].permute((1, 0, 2)))
        cosines = load_for_all_heads(cos, start, size, heads)
        sines = load_for_all_heads(sin, start, size, heads)

        result = nl.ndarray((size, heads, width), dtype=x.dtype, buffer=nl.sbuf)
        first, second = values[:, :, 0:half], values[:, :, half:width]
        turn(result[:, :, 0:half], first, cosines, second, sines, nl.subtract, nisa.engine.vector)
        turn(result[:, :, half:width], second, cosines, first, sines, nl.add, nisa.engine.gpsimd)
        nisa.dma_copy(dst=out[:, nl.ds(start, size), :].permute((1, 0, 2)), src=result)
    return out


def load_for_all_heads(table: nl.NkiTensor, start: int, size: int, heads: int) -> nl.NkiTensor:
    """Rows of cos or sin as [size, heads, half]: held once, seen by every head."""
    half = table.shape[1]
    rows = nl.ndarray((size, 1, half), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=rows, src=table[nl.ds(start, size), :])
    return rows.broadcast(1, heads)


def turn(
    dst: nl.NkiTensor,
    along: nl.NkiTensor,
    cosines: nl.NkiTensor,
    across: nl.NkiTensor,
    sines: nl.NkiTensor,
    combine: object,
    engine: object,
) -> None:
    """``combine(along * cos, across * sin)``, products in float32, on one engine."""
    left = nl.ndarray(along.shape, dtype=nl.float32, buffer=nl.sbuf)
    right = nl.ndarray(along.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=left, data1=along, data2=cosines, op=nl.multiply, engine=engine)
    nisa.tensor_tensor(dst=right, data1=across, data2=sines, op=nl.multiply, engine=engine)
    nisa.tensor_tensor(dst=dst, data1=left, data2=right, op=combine, engine=engine)
