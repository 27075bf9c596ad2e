"""Tiny kernels that each ask for one thing: what a parameter may move, and what it must not, is plain from them."""

from __future__ import annotations

from twintrack.nki import isa as nisa
from twintrack.nki import language as nl

WIDTH = 512


def vector_chain(source, out):
    """Loads, four dependent additions on the Vector Engine, a store."""
    tile = _loaded(source)
    for _ in range(4):
        nisa.tensor_tensor(tile, tile, tile, op=nl.add)
    nisa.dma_copy(out, tile)
    return out


def scalar_chain(source, out):
    """A function that needs a table, twice, and one with its sum read out."""
    tile = _loaded(source)
    nisa.activation(tile, nl.exp, tile)
    nisa.activation(tile, nl.exp, tile)
    total = nl.ndarray((128, 1), nl.float32)
    nisa.activation_reduce(tile, nl.exp, tile, nl.add, total)
    nisa.dma_copy(out, tile)
    return out


def gpsimd_chain(out):
    """Indices made on the GpSimd Engine, and a store."""
    tile = nl.ndarray((128, WIDTH), nl.int32)
    nisa.iota(tile, [[1, WIDTH]])
    nisa.dma_copy(out, tile)
    return out


def transposed_load(source, out):
    """A DMA that transposes."""
    tile = nl.ndarray((128, 128), nl.bfloat16)
    nisa.dma_transpose(tile, source)
    nisa.dma_copy(out, tile)
    return out


def added_on_the_way(one, other, out):
    """A DMA that adds."""
    tile = nl.ndarray((128, WIDTH), nl.float32)
    nisa.dma_compute(tile, [one, other], nl.add)
    nisa.dma_copy(out, tile)
    return out


def _loaded(source):
    tile = nl.ndarray(source.shape, nl.float32)
    nisa.dma_copy(tile, source)
    return tile
