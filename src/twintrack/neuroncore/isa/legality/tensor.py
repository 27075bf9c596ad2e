"""Rules of Tensor Engine instructions; those on MX formats are in ``microscaling``.

Sources: docstrings of ``nki.isa.nc_matmul`` and ``nc_transpose`` (AWS Neuron 2.32); the Trainium2 architecture guide
for what transpose mode and double FP8 mode exclude.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from twintrack.neuroncore.isa.instruction import Engine, Instruction
from twintrack.neuroncore.isa.legality import microscaling
from twintrack.neuroncore.isa.legality.common import (
    SBUF,
    SBUF_PSUM,
    broken,
    name_of,
    operands_of,
    region_in,
    start_partition,
    type_in,
)
from twintrack.neuroncore.isa.legality.systolic import PSUM, array_tile, not_tiled, product_fits
from twintrack.neuroncore.memory.dtypes import DTYPES
from twintrack.neuroncore.memory.generation import PARTITIONS, Generation
from twintrack.neuroncore.memory.view import View

__all__ = ["RULES"]

_NARROW = frozenset({"float8_e4m3", "float8_e5m2", "bfloat16", "float16"})
_WIDE = frozenset({"tfloat32", "float32"})
_FP8 = frozenset({"float8_e4m3", "float8_e5m2"})
_VECTOR_MOST = 32


def _nc_matmul(ins: Instruction, generation: Generation) -> None:
    dst, stationary, moving = operands_of(ins)
    region_in(ins, dst, PSUM, "PSUM")
    for view in (stationary, moving):
        region_in(ins, view, SBUF, "SBUF")
    for view in (dst, stationary, moving):
        start_partition(ins, view)
    double = _mode(ins, generation)
    _inputs(ins, generation, stationary, moving, double=double)
    _output(ins, generation, dst, stationary)
    rows, columns = array_tile(ins, generation)
    if double and columns != PARTITIONS:
        raise broken(
            ins, "no column tiling in double_row mode", f"tile_size {ins.attributes['tile_size']}", "unset it"
        )
    if double:
        for view in (stationary, moving):
            _paired(ins, view)
    product_fits(ins, generation, dst, stationary, moving, (rows, columns), pairs=2 if double else 1)
    _indirect(ins, dst, stationary, moving)


def _mode(ins: Instruction, generation: Generation) -> bool:
    """Whether it is double FP8 mode."""
    mode = ins.attributes["perf_mode"]
    if mode not in ("none", "double_row"):
        raise broken(ins, "perf_mode none or double_row", f"{mode}", "choose one of them")
    if mode == "none":
        return False
    if generation.number < 3:
        raise broken(ins, "NeuronCore-v3 or newer for double_row", generation.chip, "leave perf_mode unset")
    if ins.attributes["is_transpose"]:
        raise broken(ins, "no double_row in transpose mode", "both", "leave perf_mode unset")
    return True


def _inputs(
    ins: Instruction, generation: Generation, stationary: View, moving: View, *, double: bool
) -> None:
    ocp = frozenset({"float8_e4m3fn"}) if generation.number >= 4 else frozenset()
    for view in (stationary, moving):
        if double:
            type_in(ins, view, _FP8 | ocp, f"float8 that {generation.chip} takes in double_row mode")
        else:
            names = "float8, bfloat16, float16, tfloat32 or float32"
            type_in(ins, view, _NARROW | ocp | _WIDE, f"{names} that {generation.chip} takes")
    if (stationary.dtype in _WIDE) != (moving.dtype in _WIDE):
        raise broken(
            ins,
            f"moving as wide as stationary ({stationary.dtype})",
            moving.dtype,
            "convert one of them",
            moving,
        )
    if {stationary.dtype, moving.dtype} >= {"float8_e4m3", "float8_e4m3fn"}:
        raise broken(ins, "float8_e4m3 or float8_e4m3fn", "both", "use one of the two formats", moving)


def _output(ins: Instruction, generation: Generation, dst: View, stationary: View) -> None:
    if not ins.attributes["is_transpose"] or generation.number < 3:
        allowed = {"float32", "bfloat16"} if generation.number >= 4 else {"float32"}
        type_in(ins, dst, allowed, " or ".join(sorted(allowed, reverse=True)) + f" on {generation.chip}")
        return
    allowed = {stationary.dtype, DTYPES["float32"]} | (
        {DTYPES["uint16"]} if stationary.dtype.bytes == 1 else set()
    )
    type_in(ins, dst, allowed, " or ".join(sorted(allowed)) + " in transpose mode")
    if ins.attributes["accumulate"]:
        raise broken(
            ins, "accumulate=False or None in transpose mode", "True", "nothing is added in transpose mode"
        )


def _paired(ins: Instruction, view: View) -> None:
    if len(view.shape) < 3 or view.shape[1] != 2:
        raise broken(
            ins,
            f"size 2 in the first free dimension of {name_of(ins, view)} in double_row mode",
            f"shape {list(view.shape)}",
            "lay pairs of contraction rows out as [partitions, 2, columns]",
            view,
        )


def _indirect(ins: Instruction, dst: View, stationary: View, moving: View) -> None:
    indirect = [
        view
        for view in (dst, stationary, moving)
        if view.dynamic is not None and view.dynamic.kind == "tensor"
    ]
    if not indirect:
        return
    not_tiled(ins)
    for view in indirect:
        if view is dst:
            continue
        type_in(ins, view, _NARROW | {"float8_e4m3fn"}, "float16, bfloat16 or float8 with tensor indirection")
    if ins.attributes["is_transpose"] and moving in indirect:
        raise broken(
            ins, "moving without tensor indirection in transpose mode", "an indirect one", "copy it", moving
        )


def _nc_transpose(ins: Instruction, generation: Generation) -> None:
    dst, data = operands_of(ins)
    if ins.engine is Engine.TENSOR:
        region_in(ins, data, SBUF, "SBUF")
        region_in(ins, dst, PSUM, "PSUM")
        most = PARTITIONS
    elif ins.engine is Engine.VECTOR:
        for view in (dst, data):
            region_in(ins, view, SBUF_PSUM, "SBUF or PSUM")
        most = _VECTOR_MOST
    else:
        raise broken(ins, "Tensor or Vector Engine", ins.engine, "choose one of them")
    for view in (dst, data):
        start_partition(ins, view)
    if dst.dtype is not data.dtype:
        raise broken(ins, f"dst of the same type as data ({data.dtype})", dst.dtype, "allocate it so", dst)
    if data.shape[0] > most or data.free_size > most:
        raise broken(
            ins,
            f"at most {most} partitions and {most} elements per partition on the {ins.engine} engine",
            f"{data.shape[0]} and {data.free_size}",
            "split the tile" if ins.engine is Engine.TENSOR else "use engine=nisa.engine.tensor",
            data,
        )
    product_fits(ins, generation, dst, data, None, (PARTITIONS, PARTITIONS))


RULES: Mapping[str, Callable[[Instruction, Generation], None]] = MappingProxyType(
    {**microscaling.RULES, "nc_matmul": _nc_matmul, "nc_transpose": _nc_transpose}
)
"""By opcode."""
