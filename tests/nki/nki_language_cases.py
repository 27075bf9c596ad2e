"""Running a small function of ``nki.language`` on tiles, for tests of single functions."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from twintrack import nki
from twintrack.nki import isa as nisa
from twintrack.nki import language as nl

STORED = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8_e4m3": np.dtype(ml_dtypes.float8_e4m3),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "int32": np.dtype(np.int32),
    "uint32": np.dtype(np.uint32),
    "int16": np.dtype(np.int16),
    "uint16": np.dtype(np.uint16),
    "int8": np.dtype(np.int8),
    "uint8": np.dtype(np.uint8),
}


def load(array, region="sbuf"):
    """A tile with an array's elements; PSUM is filled by way of SBUF."""
    tile = nl.ndarray(array.shape, array.dtype)
    nisa.dma_copy(tile, array)
    if region == "psum":
        held = nl.ndarray(array.shape, array.dtype, buffer=nl.psum)
        nisa.tensor_copy(held, tile)
        return held
    return tile


def on_tiles(function, *arrays, region="sbuf", **options):
    """``function`` of tiles with these arrays' elements, on one core; the result as an array.

    The result may lie in PSUM; options are those of ``Simulated.with_options``.
    """

    def kernel(*inputs):
        made = function(*[load(one, region) for one in inputs])
        if made.buffer == nl.psum:
            held = nl.ndarray(made.shape, made.dtype)
            nisa.tensor_copy(held, made)
            made = held
        out = nl.ndarray(made.shape, made.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, made)
        return out

    run = nki.simulate(nki.jit(kernel))
    return (run.with_options(**options) if options else run)(*arrays)


def rounded(values, dtype):
    """float64 results as a write rounds them: to float32, then to the type."""
    single = np.asarray(values, dtype=np.float64).astype(np.float32)
    kind = STORED[dtype]
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return np.clip(np.rint(np.nan_to_num(single.astype(np.float64))), limits.min, limits.max).astype(kind)
    with np.errstate(over="ignore"):
        return single.astype(kind)
