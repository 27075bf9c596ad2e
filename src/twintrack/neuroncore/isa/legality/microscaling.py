"""Rules of instructions on MX formats, which NeuronCore-v4 has.

Sources: docstrings of ``nki.isa.nc_matmul_mx`` and ``quantize_mx``; the deep dive "MXFP matmul" for where scales lie
(AWS Neuron 2.32).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.isa.legality.common import (
    SBUF,
    broken,
    name_of,
    operands_of,
    partitions_agree,
    region_in,
    start_partition,
    type_in,
)
from twintrack.neuroncore.isa.legality.systolic import PSUM, array_tile, not_tiled, product_fits
from twintrack.neuroncore.memory.generation import PARTITIONS, Generation
from twintrack.neuroncore.memory.view import View

__all__ = ["RULES"]

_FP8 = frozenset({"float8_e5m2_x4", "float8_e4m3fn_x4"})
_PACKED = _FP8 | {"float4_e2m1fn_x4"}
_SCALES = frozenset({"float8_e8m0fnu", "uint8"})
_SOURCES = frozenset({"float16", "bfloat16"})
_QUADRANT = 32
_PER_QUADRANT = 4


def _nc_matmul_mx(ins: Instruction, generation: Generation) -> None:
    dst, stationary, moving, stationary_scale, moving_scale = operands_of(ins)
    _newest(ins, generation)
    region_in(ins, dst, PSUM, "PSUM")
    type_in(ins, dst, {"float32", "bfloat16"}, "float32 or bfloat16")
    for data, scale in ((stationary, stationary_scale), (moving, moving_scale)):
        region_in(ins, data, SBUF, "SBUF")
        type_in(ins, data, _PACKED, "float8_e5m2_x4, float8_e4m3fn_x4 or float4_e2m1fn_x4")
        _quadrants(ins, data)
        _scale(ins, data, scale, data.free_size)
    for view in (dst, stationary, moving):
        start_partition(ins, view)
    if stationary.free_size % 2:
        raise broken(
            ins,
            "an even number of elements per partition of stationary",
            f"{stationary.free_size}",
            "pad it",
            stationary,
        )
    rows, columns = array_tile(ins, generation)
    if columns != PARTITIONS:
        raise broken(ins, "a column tile size of 128", f"{columns}", "tile rows only")
    product_fits(ins, generation, dst, stationary, moving, (rows, columns))
    _pairs(ins, stationary, stationary_scale)
    _pairs(ins, moving, moving_scale)
    if any(view.dynamic is not None and view.dynamic.kind == "tensor" for view in (dst, stationary, moving)):
        not_tiled(ins)


def _newest(ins: Instruction, generation: Generation) -> None:
    if generation.number < 4:
        raise broken(ins, "NeuronCore-v4 or newer", generation.chip, "multiply bfloat16 or float8")


def _quadrants(ins: Instruction, data: View) -> None:
    count = data.shape[0]
    if count % _QUADRANT or count > PARTITIONS:
        raise broken(
            ins,
            f"32, 64, 96 or 128 partitions in {name_of(ins, data)}",
            f"{count}",
            "pad the contraction with zeros",
            data,
        )


def _scale(ins: Instruction, data: View, scale: View, free: int) -> None:
    """One scale for each group of 8 partitions, in the first four partitions of the group's quadrant."""
    name = name_of(ins, scale)
    region_in(ins, scale, SBUF, "SBUF")
    type_in(ins, scale, _SCALES, "float8_e8m0fnu or uint8")
    if scale.free_size != free:
        raise broken(ins, f"{free} elements per partition in {name}", f"{scale.free_size}", "slice it", scale)
    if scale.start_partition % _QUADRANT not in (0, 4, 8, 12):
        raise broken(
            ins,
            f"{name} from partition 0, 4, 8 or 12 of a quadrant",
            f"{scale.start_partition % _QUADRANT}",
            "start it there",
            scale,
        )
    least = data.shape[0] - _QUADRANT + _PER_QUADRANT
    if scale.shape[0] < least:
        raise broken(
            ins,
            f"at least {least} partitions in {name}, as scales lie in the quadrants of their groups",
            f"{scale.shape[0]}",
            f"allocate it with {data.shape[0] if least > _PER_QUADRANT else _PER_QUADRANT} partitions",
            scale,
        )


def _pairs(ins: Instruction, data: View, scale: View) -> None:
    """Data and scales are one tensor: both are indirect by the same index, or neither is."""
    found = [
        view.dynamic.index if view.dynamic is not None and view.dynamic.kind == "tensor" else None
        for view in (data, scale)
    ]
    if found[0] is not found[1]:
        raise broken(
            ins,
            f"{name_of(ins, scale)} with the same tensor indirection as {name_of(ins, data)}",
            "another index" if None not in found else "one of both without",
            "pass the same index to both",
            scale,
        )


def _quantize_mx(ins: Instruction, generation: Generation) -> None:
    dst, dst_scale, src = operands_of(ins)
    _newest(ins, generation)
    for view in (dst, src):
        region_in(ins, view, SBUF, "SBUF")
        start_partition(ins, view)
    type_in(ins, src, _SOURCES, "float16 or bfloat16")
    type_in(ins, dst, _FP8, "float8_e5m2_x4 or float8_e4m3fn_x4")
    _quadrants(ins, src)
    partitions_agree(ins, src, dst)
    if src.free_size % 4:
        raise broken(
            ins, "a multiple of 4 elements per partition in src", f"{src.free_size}", "pad them", src
        )
    if dst.free_size * 4 != src.free_size:
        raise broken(
            ins,
            f"{src.free_size // 4} elements per partition in dst, one for four of src,",
            f"{dst.free_size}",
            "allocate it so",
            dst,
        )
    _scale(ins, src, dst_scale, src.free_size // 4)


RULES: Mapping[str, Callable[[Instruction, Generation], None]] = MappingProxyType(
    {"nc_matmul_mx": _nc_matmul_mx, "quantize_mx": _quantize_mx}
)
"""By opcode."""
