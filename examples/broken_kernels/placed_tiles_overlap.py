"""Two tiles placed by hand, one over the end of the other, while both are needed.

A row of 64 float32 takes 256 bytes. The corrected kernel places the second tile behind them.
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def broken(x: nl.NkiTensor) -> nl.NkiTensor:
    """``x * exp(x)`` with tiles 128 bytes apart."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    first = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf, name="first", address=(0, 0))
    second = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf, name="second", address=(0, 128))
    nisa.dma_copy(dst=first, src=x)
    nisa.activation(dst=second, op=nl.exp, data=first)
    nisa.tensor_tensor(dst=second, data1=first, data2=second, op=nl.multiply)
    nisa.dma_copy(dst=out, src=second)
    return out


@nki.jit
def corrected(x: nl.NkiTensor) -> nl.NkiTensor:
    """``x * exp(x)`` with tiles side by side."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    first = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf, name="first", address=(0, 0))
    second = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf, name="second", address=(0, 256))
    nisa.dma_copy(dst=first, src=x)
    nisa.activation(dst=second, op=nl.exp, data=first)
    nisa.tensor_tensor(dst=second, data1=first, data2=second, op=nl.multiply)
    nisa.dma_copy(dst=out, src=second)
    return out
