"""The selective scan of a state space model (Mamba: Gu and Dao, 2023), its recurrence in one instruction per chunk.

    u, delta [channels, steps], a [channels, states], b, c [states, steps] -> y [channels, steps]

    h[t] = exp(delta[t] * a) * h[t - 1] + delta[t] * u[t] * b[t]        per channel and state
    y[t] = sum over states of c[t] * h[t]

Channels lie on partitions and steps along them, the direction in which the Vector Engine scans. For 128 channels, one
chunk of steps, and each state:

    DMA     b and c of the state into all partitions      stride 0 in front
    Scalar  decay = exp(delta * a)                        a of the state is the scale, one number per partition
    Vector  input = (delta * u) * b
    Vector  h = scan(decay, input)                        multiply, add; begins with the last h of the chunk before
    Vector  y = y + c * h

The states' last values are kept, [128, states], so steps are limited by nothing.
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl

TILE = 128  # channels per tile


@nki.jit
def selective_scan(
    u: nl.NkiTensor,
    delta: nl.NkiTensor,
    a: nl.NkiTensor,
    b: nl.NkiTensor,
    c: nl.NkiTensor,
    chunk: int = 1024,
) -> nl.NkiTensor:
    """Channels are a multiple of 128; the last chunk of steps may be short. States are float32 throughout."""
    channels, steps = u.shape
    states = a.shape[1]
    out = nl.ndarray((channels, steps), dtype=u.dtype, buffer=nl.shared_hbm)
    for first_channel in range(0, channels, TILE):
        rows = nl.ds(first_channel, TILE)
        rates = load(a[rows, :])
        last = nl.ndarray((TILE, states), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=last, value=0.0)
        for first in range(0, steps, chunk):
            part = nl.ds(first, min(chunk, steps - first))
            y = scan_chunk(load(u[rows, part]), load(delta[rows, part]), rates, b[:, part], c[:, part], last)
            rounded = nl.ndarray(y.shape, dtype=out.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=rounded, src=y)
            nisa.dma_copy(dst=out[rows, part], src=rounded)
    return out


def scan_chunk(
    u: nl.NkiTensor,
    delta: nl.NkiTensor,
    rates: nl.NkiTensor,
    b: nl.NkiTensor,
    c: nl.NkiTensor,
    last: nl.NkiTensor,
) -> nl.NkiTensor:
    """``y`` of one chunk, float32; ``last`` becomes the states after it."""
    steps = u.shape[1]
    scaled = nl.ndarray((TILE, steps), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=scaled, data1=delta, data2=u, op=nl.multiply)
    y = nl.ndarray((TILE, steps), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=y, value=0.0)
    for state in range(rates.shape[1]):
        own = nl.ds(state, 1)
        decay = nl.ndarray((TILE, steps), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=decay, op=nl.exp, data=delta, scale=rates[:, own])
        entering = nl.ndarray((TILE, steps), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(
            dst=entering, data1=scaled, data2=load(b[own, :].broadcast(0, TILE)), op=nl.multiply
        )
        h = nl.ndarray((TILE, steps), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor_scan(
            dst=h, data0=decay, data1=entering, initial=last[:, own], op0=nl.multiply, op1=nl.add
        )
        nisa.tensor_copy(dst=last[:, own], src=h[:, nl.ds(steps - 1, 1)])
        nisa.tensor_tensor(dst=h, data1=h, data2=load(c[own, :].broadcast(0, TILE)), op=nl.multiply)
        nisa.tensor_tensor(dst=y, data1=y, data2=h, op=nl.add)
    return y


def load(source: nl.NkiTensor) -> nl.NkiTensor:
    """A tile of this shape in SBUF."""
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile
