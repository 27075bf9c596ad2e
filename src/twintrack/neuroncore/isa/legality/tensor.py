"""Rules of Tensor Engine instructions.

Sources: docstrings of ``nki.isa.nc_matmul``, ``nc_matmul_mx``, ``nc_transpose``, ``quantize_mx`` (AWS Neuron 2.32).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.isa.legality.common import broken, operands_of, region_in, start_partition, type_in
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.generation import PARTITIONS, PSUM_BANK_BYTES, Generation
from twintrack.neuroncore.memory.view import View

__all__ = ["RULES"]

_SBUF = frozenset({MemoryRegion.sbuf})
_PSUM = frozenset({MemoryRegion.psum})
_NARROW = frozenset({"float8_e4m3", "float8_e5m2", "bfloat16", "float16"})
_WIDE = frozenset({"tfloat32", "float32"})
_FP8 = frozenset({"float8_e4m3", "float8_e5m2"})


def _nc_matmul(ins: Instruction, generation: Generation) -> None:
    dst, stationary, moving = operands_of(ins)
    region_in(ins, dst, _PSUM, "PSUM")
    for view in (stationary, moving):
        region_in(ins, view, _SBUF, "SBUF")
        start_partition(ins, view)
    start_partition(ins, dst)
    double = ins.attributes["perf_mode"] == "double_row"
    _types(ins, generation, dst, stationary, moving, double=double)
    rows, columns = _tile(ins, generation, double=double)
    _shapes(ins, dst, stationary, moving, rows, columns, double=double)
    _bank(ins, generation, dst)


def _types(
    ins: Instruction, generation: Generation, dst: View, stationary: View, moving: View, *, double: bool
) -> None:
    newest = generation.number >= 4
    narrow = _NARROW | ({"float8_e4m3fn"} if newest else frozenset())
    fp8 = _FP8 | ({"float8_e4m3fn"} if newest else frozenset())
    transpose = ins.attributes["is_transpose"]
    for view in (stationary, moving):
        if double:
            type_in(ins, view, fp8, "float8 in double_row mode")
        elif not transpose:
            type_in(ins, view, narrow | _WIDE, "float8, bfloat16, float16, tfloat32 or float32")
    if not transpose and (stationary.dtype in _WIDE) != (moving.dtype in _WIDE):
        raise broken(
            ins,
            f"moving as wide as stationary ({stationary.dtype})",
            moving.dtype,
            "convert one of them",
            moving,
        )
    if {stationary.dtype, moving.dtype} >= {"float8_e4m3", "float8_e4m3fn"}:
        raise broken(ins, "float8_e4m3 or float8_e4m3fn", "both", "use one of the two formats", moving)
    if transpose:
        return
    allowed = frozenset({"float32", "bfloat16"}) if newest else frozenset({"float32"})
    type_in(ins, dst, allowed, " or ".join(sorted(allowed, reverse=True)) + f" on {generation.chip}")


def _tile(ins: Instruction, generation: Generation, *, double: bool) -> tuple[int, int]:
    size, position = ins.attributes["tile_size"], ins.attributes["tile_position"]
    if double and generation.number < 3:
        raise broken(ins, "NeuronCore-v3 or newer for double_row", generation.chip, "leave perf_mode unset")
    if not size and not position:
        return PARTITIONS, PARTITIONS
    if not size or not position:
        raise broken(
            ins, "tile_size and tile_position together", f"{size} and {position}", "set both, or neither"
        )
    allowed = (64, 128) if generation.number == 2 else (32, 64, 128)
    for what, length, start in zip(("row", "column"), size, position, strict=True):
        if length not in allowed:
            raise broken(
                ins, f"a {what} tile size of {allowed} on {generation.chip}", f"{length}", "choose one"
            )
        if start % length or not 0 <= start < PARTITIONS:
            raise broken(
                ins, f"a {what} position that is a multiple of {length} below 128", f"{start}", "choose one"
            )
    if double and size[1] != PARTITIONS:
        raise broken(ins, "no column tiling in double_row mode", f"tile_size {size}", "use 128 columns")
    return size[0], size[1]


def _shapes(
    ins: Instruction, dst: View, stationary: View, moving: View, rows: int, columns: int, *, double: bool
) -> None:
    if stationary.shape[0] != moving.shape[0]:
        raise broken(
            ins,
            f"as many partitions (the contraction) in moving as in stationary ({stationary.shape[0]})",
            f"{moving.shape[0]}",
            "slice them alike",
            moving,
        )
    if stationary.shape[0] > rows:
        raise broken(
            ins, f"at most {rows} partitions", f"{stationary.shape[0]}", "split the contraction", stationary
        )
    if double:
        for view in (stationary, moving):
            if len(view.shape) < 3 or view.shape[1] != 2:
                raise broken(
                    ins,
                    f"size 2 in the first free dimension of {'stationary' if view is stationary else 'moving'} "
                    "in double_row mode",
                    f"shape {list(view.shape)}",
                    "lay pairs of contraction rows out as [partitions, 2, columns]",
                    view,
                )
    pairs = 2 if double else 1
    m, n = stationary.free_size // pairs, moving.free_size // pairs
    if m > columns:
        raise broken(
            ins, f"at most {columns} elements per partition of stationary", f"{m}", "split it", stationary
        )
    if (dst.shape[0], dst.free_size) != (m, n):
        raise broken(
            ins,
            f"dst of {m} partitions with {n} elements, as stationary and moving ask,",
            f"{dst.shape[0]} partitions with {dst.free_size}",
            "allocate it so, or slice it",
            dst,
        )


def _bank(ins: Instruction, generation: Generation, dst: View) -> None:
    size = dst.dtype.bytes
    if generation.number < 4:
        most = PSUM_BANK_BYTES // 4
        if dst.free_size > most:
            raise broken(
                ins,
                f"at most {most} elements per partition of moving (one PSUM bank) on {generation.chip}",
                f"{dst.free_size}",
                "split the moving operand",
                dst,
            )
        _one_bank(ins, dst, size)
    elif dst.free_size * size > PSUM_BANK_BYTES * 8:
        raise broken(ins, "at most the 8 banks of PSUM", f"{dst.free_size * size} bytes", "split moving", dst)


def _one_bank(ins: Instruction, dst: View, size: int) -> None:
    """Where the compiler places a tile it begins at a bank, so only the offset inside the tile counts."""
    buffer = dst.storage.buffer
    row_bytes = buffer.partition_bytes
    start = (dst.offset * size) % row_bytes + (buffer.address[1] if buffer.address else 0)
    span = (
        sum((count - 1) * step for step, count in zip(dst.strides[1:], dst.shape[1:], strict=True)) * size
        + size
    )
    if start // PSUM_BANK_BYTES != (start + span - 1) // PSUM_BANK_BYTES:
        raise broken(
            ins,
            f"dst inside one PSUM bank of {PSUM_BANK_BYTES} bytes per partition",
            f"bytes {start} to {start + span - 1} of the partition",
            "align the tile to a bank",
            dst,
        )


def _nc_transpose(ins: Instruction, generation: Generation) -> None:
    del generation
    dst, data = operands_of(ins)
    if ins.engine == "tensor":
        region_in(ins, data, _SBUF, "SBUF")
        region_in(ins, dst, _PSUM, "PSUM")
        most = PARTITIONS
    elif ins.engine == "vector":
        for view in (dst, data):
            region_in(ins, view, _SBUF | _PSUM, "SBUF or PSUM")
        most = 32
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
            "split the tile" if ins.engine == "tensor" else "use engine=nisa.engine.tensor",
            data,
        )
    if (dst.shape[0], dst.free_size) != (data.free_size, data.shape[0]):
        raise broken(
            ins,
            f"dst of {data.free_size} partitions with {data.shape[0]} elements",
            f"{dst.shape[0]} with {dst.free_size}",
            "allocate it so, or slice it",
            dst,
        )


RULES: Mapping[str, Callable[[Instruction, Generation], None]] = MappingProxyType(
    {"nc_matmul": _nc_matmul, "nc_transpose": _nc_transpose}
)
"""By opcode."""
