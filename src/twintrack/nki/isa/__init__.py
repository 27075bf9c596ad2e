"""``nki.isa``: one function per instruction. Each checks its arguments and issues a record to the running core."""

from __future__ import annotations

from twintrack.errors import KernelError as NkiValidationError
from twintrack.neuroncore.isa.instruction import Register as VirtualRegister
from twintrack.nki.isa.constants import (
    dge_mode,
    dma_engine,
    engine,
    gpsimd_engine,
    matmul_perf_mode,
    nc_version,
    oob_mode,
    reduce_cmd,
    scalar_engine,
    tensor_engine,
    unknown_engine,
    vector_engine,
)
from twintrack.nki.isa.elementwise import scalar_tensor_tensor, tensor_scalar, tensor_tensor
from twintrack.nki.isa.issue import NkiInstruction
from twintrack.nki.isa.movement import dma_copy, memset, tensor_copy
from twintrack.nki.isa.selection import affine_select, iota, range_select, select_reduce, sequence_bounds
from twintrack.nki.isa.tensor import nc_matmul, nc_transpose

__all__ = [
    "NkiInstruction",
    "NkiValidationError",
    "VirtualRegister",
    "affine_select",
    "dge_mode",
    "dma_copy",
    "dma_engine",
    "engine",
    "gpsimd_engine",
    "iota",
    "matmul_perf_mode",
    "memset",
    "nc_matmul",
    "nc_transpose",
    "nc_version",
    "oob_mode",
    "range_select",
    "reduce_cmd",
    "scalar_engine",
    "scalar_tensor_tensor",
    "select_reduce",
    "sequence_bounds",
    "tensor_copy",
    "tensor_engine",
    "tensor_scalar",
    "tensor_tensor",
    "unknown_engine",
    "vector_engine",
]
