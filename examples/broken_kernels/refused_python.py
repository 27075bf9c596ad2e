"""Python that runs in a simulator and that the NKI compiler refuses. Found by ``twintrack kernel lint``, or ``--sdk``.

The corrected kernel compares by value.
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def broken(x: nl.NkiTensor, scale: float | None = None) -> nl.NkiTensor:
    """A matrix, scaled where a scale is given."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    if scale is not None:
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=scale)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def corrected(x: nl.NkiTensor, scale: float | None = None) -> nl.NkiTensor:
    """A matrix, scaled where a scale is given."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    if scale != None:  # noqa: E711 - the compiler knows no identity
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=scale)
    nisa.dma_copy(dst=out, src=tile)
    return out
