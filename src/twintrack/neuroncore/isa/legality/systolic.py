"""Rules that Tensor Engine instructions share: tiles of the systolic array, shapes of products, banks of PSUM.

Sources: docstrings of ``nki.isa.nc_matmul`` and ``nc_matmul_mx`` (AWS Neuron 2.32).
"""

from __future__ import annotations

from twintrack.neuroncore.isa.instruction import Engine, Instruction
from twintrack.neuroncore.isa.legality.common import broken, name_of
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.generation import PARTITIONS, PSUM_BANK_BYTES, Generation
from twintrack.neuroncore.memory.view import View

__all__ = ["PSUM", "array_tile", "not_tiled", "product_fits"]

PSUM = frozenset({MemoryRegion.psum})
_MOST_MOVING = 512


def array_tile(ins: Instruction, generation: Generation) -> tuple[int, int]:
    """Rows and columns of the systolic array that the instruction uses."""
    size, position = ins.attributes["tile_size"], ins.attributes["tile_position"]
    if not size and not position:
        return PARTITIONS, PARTITIONS
    if len(size) != 2 or len(position) != 2:
        raise broken(
            ins, "tile_size and tile_position as two pairs", f"{size} and {position}", "set both, or neither"
        )
    allowed = (64, 128) if generation.number == 2 else (32, 64, 128)
    for what, length, start in zip(("row", "column"), size, position, strict=True):
        if length not in allowed:
            raise broken(
                ins,
                f"a {what} tile size of {', '.join(map(str, allowed))} on {generation.chip}",
                f"{length}",
                "choose one of them",
            )
        if start % length or not 0 <= start < PARTITIONS:
            raise broken(
                ins, f"a {what} position that is a multiple of {length} below 128", f"{start}", "choose one"
            )
    return size[0], size[1]


def not_tiled(ins: Instruction) -> None:
    """Tensor indirection uses the array from its first row and column."""
    position = ins.attributes["tile_position"]
    if position and position != (0, 0):
        raise broken(
            ins, "tile_position (0, 0) or none with tensor indirection", f"{position}", "leave it unset"
        )


def product_fits(
    ins: Instruction,
    generation: Generation,
    dst: View,
    stationary: View,
    moving: View | None,
    tile: tuple[int, int],
    *,
    pairs: int = 1,
) -> None:
    """Sizes of operands agree, fit the array, and the product fits banks of PSUM.

    Args:
        ins: the instruction.
        generation: whose limits.
        dst: the product, ``(M, N)``.
        stationary: ``(K, M)``, or ``(K, 2, M)`` where pairs of rows are multiplied.
        moving: ``(K, N)``; ``None`` for a transpose, which is ``(M, K)``.
        tile: rows and columns of the array that are used.
        pairs: rows of the contraction per partition.
    """
    rows, columns = tile
    contraction = stationary.shape[0]
    if moving is not None and moving.shape[0] != contraction:
        raise broken(
            ins,
            f"as many partitions (the contraction) in moving as in stationary ({contraction})",
            f"{moving.shape[0]}",
            "slice them alike",
            moving,
        )
    if contraction > rows:
        raise broken(
            ins,
            f"at most {rows} partitions of stationary",
            f"{contraction}",
            "split the contraction",
            stationary,
        )
    m = stationary.free_size // pairs
    n = contraction if moving is None else moving.free_size // pairs
    if m > columns:
        raise broken(
            ins,
            f"at most {columns} elements per partition of {name_of(ins, stationary)}",
            f"{m}",
            "split it",
            stationary,
        )
    if moving is not None:
        _moving(ins, generation, dst, moving, n)
    if (dst.shape[0], dst.free_size) != (m, n):
        raise broken(
            ins,
            f"dst of {m} partitions with {n} elements",
            f"{dst.shape[0]} with {dst.free_size}",
            "allocate it so, or slice it",
            dst,
        )
    if ins.engine is Engine.TENSOR and generation.number < 4 and dst.dynamic is None:
        _one_bank(ins, dst)


def _moving(ins: Instruction, generation: Generation, dst: View, moving: View, n: int) -> None:
    most = _MOST_MOVING if generation.number < 4 else PSUM_BANK_BYTES * 8 // max(2, dst.dtype.bytes)
    if n > most:
        what = "one PSUM bank" if generation.number < 4 else "the 8 banks of PSUM"
        raise broken(
            ins,
            f"at most {most} elements per partition of moving ({what}) on {generation.chip}",
            f"{n}",
            "split the moving operand",
            moving,
        )


def _one_bank(ins: Instruction, dst: View) -> None:
    """Where the compiler places a tile it begins at a bank, so only the offset inside the tile counts."""
    start = dst.start_byte
    spans = [(count - 1) * step for step, count in zip(dst.strides[1:], dst.shape[1:], strict=True)]
    first = start + sum(span for span in spans if span < 0) * dst.dtype.bytes
    last = start + sum(span for span in spans if span > 0) * dst.dtype.bytes + dst.dtype.bytes - 1
    if first // PSUM_BANK_BYTES != last // PSUM_BANK_BYTES:
        raise broken(
            ins,
            f"dst inside one PSUM bank of {PSUM_BANK_BYTES} bytes per partition",
            f"bytes {first} to {last} of the partition",
            "align the tile to a bank",
            dst,
        )
