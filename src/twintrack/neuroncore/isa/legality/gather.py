"""Rules of instructions that gather within SBUF, move across partitions, search and count.

Sources: docstrings of ``nki.isa.local_gather``, ``nc_n_gather``, ``nc_stream_shuffle``, ``max8``, ``nc_find_index8``,
``nc_match_replace8``, ``nonzero_with_count`` and ``topk`` (AWS Neuron 2.32; the sizes of ``nc_match_replace8``: 2.28,
which is the last to state them).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.isa.legality.common import (
    SBUF,
    SBUF_PSUM,
    broken,
    free_size_is,
    name_of,
    operands_of,
    partitions_agree,
    same_free_size,
    type_in,
)
from twintrack.neuroncore.isa.legality.tiles import (
    at_least,
    dimensions,
    float32_number,
    integer32,
    number_type,
    same_type,
    tile,
)
from twintrack.neuroncore.memory.generation import Generation
from twintrack.neuroncore.memory.view import View

__all__ = ["CORE_PARTITIONS", "KEPT", "QUADRANT", "RULES"]

CORE_PARTITIONS = 16
"""Partitions that one of the eight GpSimd cores is connected to."""
QUADRANT = 32
"""Partitions among which the Vector Engine moves data across."""
KEPT = 255
"""In a shuffle mask: this partition of the destination keeps what it holds."""

_UINT = frozenset({"uint16", "uint32"})
_PER_INDEX = (1, 2, 4, 8, 16, 32)
_MOST_INDICES = 4096
_MOST_SEARCHED = 16384
_EIGHT = 8


def _local_gather(ins: Instruction, generation: Generation) -> None:
    del generation
    dst, src, index = operands_of(ins)
    for view in (dst, src, index):
        tile(ins, view, SBUF, "SBUF")
    same_type(ins, src, dst)
    type_in(ins, index, frozenset({"uint16"}), "uint16")
    partitions_agree(ins, src, index, dst)
    _whole_cores(ins, src)
    per_index, valid = ins.attributes["num_elem_per_idx"], ins.attributes["num_valid_indices"]
    if per_index not in _PER_INDEX:
        raise broken(ins, f"num_elem_per_idx among {list(_PER_INDEX)}", f"{per_index}", "choose one")
    there = index.free_size * CORE_PARTITIONS
    count = there if valid is None else valid
    if not 1 <= count <= there:
        raise broken(
            ins,
            f"num_valid_indices from 1 to the indices of {CORE_PARTITIONS} partitions ({there})",
            f"{count}",
            "pass fewer, or a larger index tile",
            index,
        )
    if count > _MOST_INDICES:
        raise broken(
            ins, f"at most {_MOST_INDICES} indices per GpSimd core", f"{count}", "split the gather", index
        )
    free_size_is(ins, dst, count * per_index)


def _whole_cores(ins: Instruction, view: View) -> None:
    if view.shape[0] % CORE_PARTITIONS:
        raise broken(
            ins,
            f"a multiple of {CORE_PARTITIONS} partitions",
            f"{view.shape[0]}",
            "fill the partitions of whole GpSimd cores",
            view,
        )


def _nc_n_gather(ins: Instruction, generation: Generation) -> None:
    del generation
    dst, data, indices = operands_of(ins)
    for view in (dst, data, indices):
        tile(ins, view, SBUF, "SBUF")
    same_type(ins, data, dst)
    type_in(ins, indices, frozenset({"uint32"}), "uint32")
    partitions_agree(ins, data, indices, dst)
    same_free_size(ins, indices, dst)


def _nc_stream_shuffle(ins: Instruction, generation: Generation) -> None:
    del generation
    dst, src = operands_of(ins)
    for view in (dst, src):
        tile(ins, view, SBUF_PSUM, "SBUF or PSUM")
    same_type(ins, src, dst)
    same_free_size(ins, src, dst)
    _shuffle_start(ins, dst, src)
    mask = ins.attributes["shuffle_mask"]
    if len(mask) != QUADRANT:
        raise broken(ins, f"a shuffle_mask of {QUADRANT} elements", f"{len(mask)}", "name a source for each")
    for at, one in enumerate(mask):
        if one != KEPT and not 0 <= one < QUADRANT:
            raise broken(
                ins,
                f"partitions 0 to {QUADRANT - 1}, or {KEPT}, in shuffle_mask",
                f"{one} at {at}",
                "data moves within a quadrant only",
            )
    for at in range(dst.shape[0]):
        one = mask[at % QUADRANT]
        source = at - at % QUADRANT + one
        if one != KEPT and source >= src.shape[0]:
            raise broken(
                ins,
                f"a source partition inside src for partition {at} of dst",
                f"partition {source} (shuffle_mask[{at % QUADRANT}] = {one})",
                f"pass src with more partitions, or {KEPT} to keep what dst holds",
                src,
            )


def _shuffle_start(ins: Instruction, dst: View, src: View) -> None:
    """Both start where the larger of the two, rounded up to whole quadrants, may start."""
    active = -(-max(src.shape[0], dst.shape[0]) // QUADRANT) * QUADRANT
    allowed = {32: (0, 32, 64, 96), 64: (0, 64)}.get(active, (0,))
    for view in (dst, src):
        if view.start_partition not in allowed:
            raise broken(
                ins,
                f"a start partition among {list(allowed)} for {active} active partitions",
                f"{view.start_partition}",
                "place the data at such a partition",
                view,
            )


def _max8(ins: Instruction, generation: Generation) -> None:
    del generation
    dst, src = operands_of(ins)
    _searched(ins, src, 3, _EIGHT)
    _eight(ins, dst, src, 2)
    number_type(ins, dst)
    dimensions(ins, dst, 2, 2)


def _nc_find_index8(ins: Instruction, generation: Generation) -> None:
    del generation
    dst, data, vals = operands_of(ins)
    _searched(ins, data, 3, _EIGHT)
    _eight(ins, vals, data, 3)
    number_type(ins, vals)
    _eight(ins, dst, data, 2)
    type_in(ins, dst, _UINT, "uint16 or uint32")


def _nc_match_replace8(ins: Instruction, generation: Generation) -> None:
    del generation
    dst, dst_idx = ins.outs
    data, vals = ins.ins
    assert dst is not None and data is not None and vals is not None  # noqa: S101, PT018 - required
    _searched(ins, data, 5, 1)
    _eight(ins, vals, data, 3)
    number_type(ins, vals)
    tile(ins, dst, SBUF_PSUM, "SBUF or PSUM")
    number_type(ins, dst)
    partitions_agree(ins, data, dst)
    same_free_size(ins, data, dst)
    float32_number(ins, "imm")
    if dst_idx is not None:
        _eight(ins, dst_idx, data, 3)
        type_in(ins, dst_idx, _UINT, "uint16 or uint32")


def _searched(ins: Instruction, view: View, most_dimensions: int, fewest: int) -> None:
    """What is searched: numbers, of few dimensions, not too many to a partition."""
    tile(ins, view, SBUF_PSUM, "SBUF or PSUM")
    number_type(ins, view)
    dimensions(ins, view, 1, most_dimensions)
    if not fewest <= view.free_size <= _MOST_SEARCHED:
        raise broken(
            ins,
            f"{fewest} to {_MOST_SEARCHED} elements per partition in {name_of(ins, view)}",
            f"{view.free_size}",
            "split the tile, or pad it with the lowest number",
            view,
        )


def _eight(ins: Instruction, view: View, first: View, most_dimensions: int) -> None:
    """Eight elements for each partition of what is searched."""
    tile(ins, view, SBUF_PSUM, "SBUF or PSUM")
    partitions_agree(ins, first, view)
    free_size_is(ins, view, _EIGHT)
    dimensions(ins, view, 1, most_dimensions)


def _nonzero_with_count(ins: Instruction, generation: Generation) -> None:
    at_least(ins, generation, 3, "count on the host, or with nisa.tensor_scalar and nisa.tensor_reduce")
    dst, src = operands_of(ins)
    for view in (dst, src):
        tile(ins, view, SBUF, "SBUF")
    type_in(ins, src, frozenset({"float32", "int32"}), "float32 or int32")
    type_in(ins, dst, frozenset({"int32"}), "int32")
    partitions_agree(ins, src, dst)
    free_size_is(ins, dst, src.free_size + 1)
    integer32(ins, "index_offset")
    integer32(ins, "padding_val")


def _topk(ins: Instruction, generation: Generation) -> None:
    del generation
    val_dst, idx_dst, src = operands_of(ins)
    for view in (val_dst, idx_dst, src):
        tile(ins, view, SBUF, "SBUF")
        dimensions(ins, view, 2, 2)
    for view in (val_dst, src):
        type_in(ins, view, frozenset({"bfloat16"}), "bfloat16")
    type_in(ins, idx_dst, frozenset({"uint32"}), "uint32")
    partitions_agree(ins, src, val_dst, idx_dst)
    same_free_size(ins, val_dst, idx_dst)
    _whole_cores(ins, src)
    n, k = ins.attributes["n"], val_dst.free_size
    if not 8 <= n < 65536:
        raise broken(ins, "n from 8 to 65535", f"{n}", "pad the source with the lowest number, or split it")
    if k >= 32768 or k > n:
        raise broken(
            ins, f"at most 32767 results, and no more than n ({n})", f"{k}", "ask for fewer", val_dst
        )
    columns = -(-n // CORE_PARTITIONS)
    if src.free_size < columns:
        raise broken(
            ins,
            f"at least {columns} elements per partition, which hold {n} in {CORE_PARTITIONS} partitions,",
            f"{src.free_size}",
            "pass a wider source, or a smaller n",
            src,
        )


RULES: Mapping[str, Callable[[Instruction, Generation], None]] = MappingProxyType(
    {
        "local_gather": _local_gather,
        "nc_n_gather": _nc_n_gather,
        "nc_stream_shuffle": _nc_stream_shuffle,
        "max8": _max8,
        "nc_find_index8": _nc_find_index8,
        "nc_match_replace8": _nc_match_replace8,
        "nonzero_with_count": _nonzero_with_count,
        "topk": _topk,
    }
)
"""By opcode."""
