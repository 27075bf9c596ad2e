"""Enumerations of ``nki.isa``; names and values as documented."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from twintrack.neuroncore.isa.instruction import Engine

__all__ = [
    "ENGINES",
    "dge_mode",
    "dma_engine",
    "engine",
    "gpsimd_engine",
    "matmul_perf_mode",
    "nc_version",
    "oob_mode",
    "reduce_cmd",
    "scalar_engine",
    "tensor_engine",
    "unknown_engine",
    "vector_engine",
]


class engine(Enum):
    """Engines of a NeuronCore."""

    unknown = 0
    """Left to the compiler."""
    tensor = 1
    """Tensor Engine."""
    scalar = 2
    """Scalar Engine."""
    gpsimd = 3
    """GpSimd Engine."""
    dma = 4
    """DMA Engine."""
    vector = 5
    """Vector Engine."""
    sync = 6
    """Sync Engine."""


tensor_engine = engine.tensor
vector_engine = engine.vector
scalar_engine = engine.scalar
gpsimd_engine = engine.gpsimd
unknown_engine = engine.unknown

ENGINES: Mapping[engine, Engine] = MappingProxyType(
    {
        engine.tensor: Engine.TENSOR,
        engine.scalar: Engine.SCALAR,
        engine.gpsimd: Engine.GPSIMD,
        engine.dma: Engine.DMA,
        engine.vector: Engine.VECTOR,
        engine.sync: Engine.SYNC,
    }
)
"""The engine of an instruction's record for each that an author names; ``unknown`` has none."""


class reduce_cmd(Enum):
    """What an instruction does to its engine's accumulator registers."""

    idle = 0
    """Nothing."""
    reset = 1
    """Reset them."""
    reduce = 2
    """Accumulate onto them."""
    reset_reduce = 3
    """Reset them, then accumulate."""
    load_reduce = 4
    """Load a value, then accumulate."""


class dge_mode(Enum):
    """Who generates a DMA's descriptors."""

    unknown = 0
    """Left to the compiler."""
    swdge = 1
    """Software, on GpSimd."""
    hwdge = 2
    """Hardware."""
    none = 3
    """They are made before the kernel runs."""


class oob_mode(Enum):
    """What a dynamic index out of bounds does."""

    error = 0
    """It is an error."""
    skip = 1
    """The access is left out."""


class matmul_perf_mode(Enum):
    """Performance mode of a matrix multiplication."""

    none = "none"
    """None."""
    double_row = "double_row"
    """Two rows of float8 at once."""


@functools.total_ordering
class nc_version(Enum):
    """NeuronCore generation; a later one is greater, as kernels ask for ``gen3`` or later."""

    gen2 = 2
    """Trainium1, Inferentia2."""
    gen3 = 3
    """Trainium2."""
    gen4 = 4
    """Trainium3."""

    def __lt__(self, other: object) -> bool:
        return self.value < other.value if isinstance(other, nc_version) else NotImplemented


class dma_engine(Enum):
    """Which DMA carries a transfer between cores."""

    dma = 1
    """The shared DMA engines."""
    gpsimd_dma = 2
    """GpSimd's own."""
