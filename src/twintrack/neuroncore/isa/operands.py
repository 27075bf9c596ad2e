"""The operands of every instruction by name, in the order in which its record holds them.

Names are those of the documented ``nki.isa`` functions. ``outs`` are written (some are read too, such as the
destination of an accumulating matrix multiplication), ``ins`` are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

__all__ = ["OPERANDS", "Operands"]


class Operands(NamedTuple):
    """Names of what an instruction writes and reads."""

    outs: tuple[str, ...]
    ins: tuple[str, ...]


def _one(outs: str, ins: str = "") -> Operands:
    return Operands(tuple(outs.split()), tuple(ins.split()))


OPERANDS: Mapping[str, Operands] = MappingProxyType(
    {
        # data movement
        "dma_copy": _one("dst", "src"),
        "dma_transpose": _one("dst", "src"),
        "dma_compute": _one("dst", "srcs"),  # as many as there are sources
        "tensor_copy": _one("dst", "src"),
        "tensor_copy_predicated": _one("dst", "src predicate"),
        "memset": _one("dst"),
        # tensor engine
        "nc_matmul": _one("dst", "stationary moving"),
        "nc_matmul_mx": _one("dst", "stationary moving stationary_scale moving_scale"),
        "nc_transpose": _one("dst", "data"),
        # elementwise
        "tensor_tensor": _one("dst", "data1 data2"),
        "tensor_scalar": _one("dst", "data operand0 operand1"),
        "scalar_tensor_tensor": _one("dst", "data operand0 operand1"),
        "activation": _one("dst reduce_res", "data bias scale"),
        "activation_reduce": _one("dst reduce_res", "data bias scale"),
        "activate2": _one("dst reduce_res", "data imm0 imm1 relu_param"),
        "exponential": _one("dst reduce_res", "src max_value reduce_init"),
        "reciprocal": _one("dst", "data"),
        "dropout": _one("dst", "data prob"),
        "quantize_mx": _one("dst dst_scale", "src"),
        # reductions and scans
        "tensor_reduce": _one("dst", "data"),
        "tensor_partition_reduce": _one("dst", "data"),
        "tensor_scalar_reduce": _one("dst reduce_res", "data operand0 reduce_init"),
        "tensor_scalar_cumulative": _one("dst", "src imm0 imm1"),
        "tensor_tensor_scan": _one("dst", "data0 data1 initial"),
        "bn_stats": _one("dst", "data"),
        "bn_aggr": _one("dst", "data"),
        # selection, search, gather
        "iota": _one("dst"),
        "affine_select": _one("dst", "on_true_tile"),
        "range_select": _one("dst reduce_res", "on_true_tile bound0 bound1"),
        "select_reduce": _one("dst reduce_res", "predicate on_true on_false"),
        "sequence_bounds": _one("dst", "segment_ids"),
        "local_gather": _one("dst", "src_buffer index"),
        "nc_n_gather": _one("dst", "data indices"),
        "nc_stream_shuffle": _one("dst", "src"),
        "max8": _one("dst", "src"),
        "nc_find_index8": _one("dst", "data vals"),
        "nc_match_replace8": _one("dst dst_idx", "data vals"),
        "nonzero_with_count": _one("dst", "src"),
        "topk": _one("val_dst idx_dst", "src"),
        # random
        "rng": _one("dst"),
        "rand2": _one("dst", "min max"),
        "set_rng_seed": _one("", "src_seeds"),
        "rand_set_state": _one("", "src_seeds"),
        "rand_get_state": _one("dst"),
        # registers and cores
        "register_move": _one(""),
        "register_load": _one("", "src"),
        "register_store": _one("dst"),
        "register_alu": _one(""),  # ours: arithmetic of Python on registers
        "sendrecv": _one("dst", "src"),
        "core_barrier": _one("", "data"),
        "device_print": _one("", "tensor"),
        # collectives: as many as there are tensors
        "all_reduce": _one("dsts", "srcs"),
        "all_gather": _one("dsts", "srcs"),
        "all_gather_v": _one("dsts metadata_tensor", "srcs metadata_tensor"),
        "reduce_scatter": _one("dsts", "srcs"),
        "all_to_all": _one("dsts", "srcs"),
        "all_to_all_v": _one("dsts metadata_tensor", "srcs metadata_tensor"),
        "collective_permute": _one("dsts", "srcs"),
        "collective_permute_implicit": _one("dsts_by_channel", "srcs_by_channel"),
        "collective_permute_implicit_reduce": _one("dsts_by_channel", "srcs"),  # srcs0, then srcs1
        "collective_permute_implicit_current_processing_rank_id": _one(""),
        "rank_id": _one(""),
    }
)
"""By opcode, which is the name of the ``nki.isa`` (or ``nki.collectives``) function."""
