"""``neuronxcc.nki.isa``: the instructions as until 2.26: they make their result tiles, and take a mask."""

from __future__ import annotations

from types import SimpleNamespace

from twintrack.nki.isa.constants import (
    dge_mode,
    engine,
    gpsimd_engine,
    nc_version,
    oob_mode,
    reduce_cmd,
    scalar_engine,
    tensor_engine,
    unknown_engine,
    vector_engine,
)
from twintrack.nki.isa.target import get_nc_version
from twintrack.nki.legacy.isa.compute import *  # noqa: F403 - the module lists its names
from twintrack.nki.legacy.isa.compute import __all__ as _compute
from twintrack.nki.legacy.isa.move import *  # noqa: F403
from twintrack.nki.legacy.isa.move import __all__ as _move
from twintrack.nki.legacy.isa.select import *  # noqa: F403
from twintrack.nki.legacy.isa.select import __all__ as _select
from twintrack.nki.legacy.limits import fp32
from twintrack.nki.legacy.products import nc_matmul

dma_engine = engine.dma
"""The DMA engines."""
constants = SimpleNamespace(
    dge_mode=dge_mode, engine=engine, nc_version=nc_version, oob_mode=oob_mode, reduce_cmd=reduce_cmd
)
"""``nki.isa.constants``: the enumerations."""

__all__ = [
    "constants",
    "dge_mode",
    "dma_engine",
    "engine",
    "fp32",
    "get_nc_version",
    "gpsimd_engine",
    "nc_matmul",
    "nc_version",
    "oob_mode",
    "reduce_cmd",
    "scalar_engine",
    "tensor_engine",
    "unknown_engine",
    "vector_engine",
]
__all__ += _compute
__all__ += _move
__all__ += _select
