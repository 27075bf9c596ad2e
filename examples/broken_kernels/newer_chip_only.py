"""An instruction on an engine that has it from NeuronCore-v3 on, run with ``--chip trn1``.

The corrected kernel leaves the choice of the engine to the chip.
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def broken(x: nl.NkiTensor) -> nl.NkiTensor:
    """Double a matrix on the Scalar Engine."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0, engine=nisa.engine.scalar)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def corrected(x: nl.NkiTensor) -> nl.NkiTensor:
    """Double a matrix."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=tile)
    return out
