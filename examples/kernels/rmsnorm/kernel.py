"""RMSNorm (Zhang and Sennrich, 2019): rows scaled to unit root mean square, times a weight per column.

    x [rows, width], weight [width] -> x / sqrt(mean(x * x) + epsilon) * weight

128 rows at a time, one per partition. The weight is needed in every partition: one DMA with a stride of 0 in front
writes it to all of them, once per kernel. For a tile:

    Scalar  x * x, summed in the same pass           [P, 1]; the squares themselves are scratch
    Scalar  rsqrt(sum / width + epsilon)             [P, 1]; mean and epsilon are its scale and bias
    Vector  (x * that) * weight in one instruction   [P, width]
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def rmsnorm(x: nl.NkiTensor, weight: nl.NkiTensor, epsilon: float = 1e-6) -> nl.NkiTensor:
    """The sum of squares is float32 whatever the type of ``x``."""
    rows, width = x.shape
    pmax = nl.tile_size.pmax
    out = nl.ndarray((rows, width), dtype=x.dtype, buffer=nl.shared_hbm)

    weights = nl.ndarray((pmax, width), dtype=weight.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=weights, src=weight.reshape((1, width)).broadcast(0, pmax))
    epsilons = nl.ndarray((pmax, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=epsilons, value=epsilon)

    for start in range(0, rows, pmax):
        size = min(pmax, rows - start)
        values = nl.ndarray((size, width), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=values, src=x[nl.ds(start, size), :])

        squares = nl.ndarray((size, width), dtype=nl.bfloat16, buffer=nl.sbuf)
        total = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(
            dst=squares,
            op=nl.square,
            data=values,
            reduce_op=nl.add,
            reduce_res=total,
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )

        inverse = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=inverse, op=nl.rsqrt, data=total, scale=1.0 / width, bias=epsilons[0:size, :])

        nisa.scalar_tensor_tensor(
            dst=values,
            data=values,
            op0=nl.multiply,
            operand0=inverse,
            op1=nl.multiply,
            operand1=weights[0:size, :],
        )
        nisa.dma_copy(dst=out[nl.ds(start, size), :], src=values)
    return out
