"""Softmax over the last dimension of a matrix, four passes over a row that stays in SBUF.

    x [rows, columns] -> softmax(x, axis=1) [rows, columns]

128 rows at a time, one per partition; the last tile may have fewer. What each engine does for a tile:

    DMA     load x
    Vector  negated maximum of each row                     [P, 1]
    Scalar  exp(x + bias), and in the same pass its sum     [P, columns] and [P, 1]
    Vector  1 / sum, then times exp(...), rounded once      [P, columns]
    DMA     store

Taking the maximum off is the Scalar Engine's bias and costs nothing, and neither does the sum: the engine adds up what
it writes in its accumulator registers.
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def softmax(x: nl.NkiTensor) -> nl.NkiTensor:
    """A row must fit in a partition beside its powers: about 38,000 bfloat16 columns on Trainium2."""
    rows, columns = x.shape
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, rows, nl.tile_size.pmax):
        size = min(nl.tile_size.pmax, rows - start)
        values = nl.ndarray((size, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=values, src=x[nl.ds(start, size), :])

        negated_max = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=negated_max, op=nl.maximum, data=values, axis=1, negate=True)

        powers = nl.ndarray((size, columns), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(
            dst=powers,
            op=nl.exp,
            data=values,
            bias=negated_max,
            reduce_op=nl.add,
            reduce_res=total,
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )

        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=values, data=powers, op0=nl.multiply, operand0=total)
        nisa.dma_copy(dst=out[nl.ds(start, size), :], src=values)
    return out
