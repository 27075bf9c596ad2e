"""``nki.isa``: one function per instruction. Each checks its arguments and issues a record to the running core."""

from __future__ import annotations

from typing import NoReturn

from twintrack.errors import KernelError as NkiValidationError
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
from twintrack.nki.isa.control import (
    core_barrier,
    register_alloc,
    register_load,
    register_move,
    register_store,
    sendrecv,
)
from twintrack.nki.isa.elementwise import scalar_tensor_tensor, tensor_scalar, tensor_tensor
from twintrack.nki.isa.gather import (
    local_gather,
    max8,
    nc_find_index8,
    nc_match_replace8,
    nc_n_gather,
    nc_stream_shuffle,
    nonzero_with_count,
    topk,
)
from twintrack.nki.isa.issue import NkiInstruction
from twintrack.nki.isa.movement import (
    dma_compute,
    dma_copy,
    dma_transpose,
    memset,
    tensor_copy,
    tensor_copy_dynamic_dst,
    tensor_copy_dynamic_src,
    tensor_copy_predicated,
)
from twintrack.nki.isa.random import rand2, rand_get_state, rand_set_state, rng, set_rng_seed
from twintrack.nki.isa.reduction import (
    bn_aggr,
    bn_stats,
    tensor_partition_reduce,
    tensor_reduce,
    tensor_scalar_cumulative,
    tensor_scalar_reduce,
    tensor_tensor_scan,
)
from twintrack.nki.isa.registers import VirtualRegister
from twintrack.nki.isa.scalar import (
    activate2,
    activation,
    activation_reduce,
    dropout,
    exponential,
    reciprocal,
)
from twintrack.nki.isa.selection import affine_select, iota, range_select, select_reduce, sequence_bounds
from twintrack.nki.isa.target import get_nc_sub_version, get_nc_version
from twintrack.nki.isa.tensor import nc_matmul, nc_matmul_mx, nc_transpose, quantize_mx
from twintrack.nki.missing import missing
from twintrack.nki.tensor import NKIObject

__all__ = [
    "NKIObject",
    "NkiInstruction",
    "NkiValidationError",
    "VirtualRegister",
    "activate2",
    "activation",
    "activation_reduce",
    "affine_select",
    "bn_aggr",
    "bn_stats",
    "core_barrier",
    "dge_mode",
    "dma_compute",
    "dma_copy",
    "dma_engine",
    "dma_transpose",
    "dropout",
    "engine",
    "exponential",
    "get_nc_sub_version",
    "get_nc_version",
    "gpsimd_engine",
    "iota",
    "local_gather",
    "matmul_perf_mode",
    "max8",
    "memset",
    "nc_find_index8",
    "nc_match_replace8",
    "nc_matmul",
    "nc_matmul_mx",
    "nc_n_gather",
    "nc_stream_shuffle",
    "nc_transpose",
    "nc_version",
    "nonzero_with_count",
    "oob_mode",
    "quantize_mx",
    "rand2",
    "rand_get_state",
    "rand_set_state",
    "range_select",
    "reciprocal",
    "reduce_cmd",
    "register_alloc",
    "register_load",
    "register_move",
    "register_store",
    "rng",
    "scalar_engine",
    "scalar_tensor_tensor",
    "select_reduce",
    "sendrecv",
    "sequence_bounds",
    "set_rng_seed",
    "tensor_copy",
    "tensor_copy_dynamic_dst",
    "tensor_copy_dynamic_src",
    "tensor_copy_predicated",
    "tensor_engine",
    "tensor_partition_reduce",
    "tensor_reduce",
    "tensor_scalar",
    "tensor_scalar_cumulative",
    "tensor_scalar_reduce",
    "tensor_tensor",
    "tensor_tensor_scan",
    "topk",
    "unknown_engine",
    "vector_engine",
]


def __getattr__(name: str) -> NoReturn:
    raise missing("isa", name, __all__)


def __dir__() -> list[str]:
    """The documented names, without the modules that hold them."""
    return sorted(__all__)
