"""What DMA instructions compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from twintrack.neuroncore.convert import cast, round_to
from twintrack.neuroncore.emulator.access import read_inside, single, write_raw
from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.isa.legality.common import broken
from twintrack.neuroncore.isa.legality.dma import TRANSPOSED
from twintrack.neuroncore.memory.view import View

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core

__all__ = ["HANDLERS"]


def _dma_copy(core: Core, ins: Instruction) -> None:
    """``dst = src`` element by element in row-major order, cast through float32 where the types differ."""
    (dst,), (src,) = ins.outs, ins.ins
    assert dst is not None  # noqa: S101 - the operands of an issued instruction
    assert src is not None  # noqa: S101
    skip = ins.attributes["oob_mode"] == "skip"
    if src.dynamic is None:
        held, inside = core.read(ins, src), None
    else:
        held, inside = read_inside(core, ins, src, skip=skip)
    write_raw(core, ins, dst, cast(held, src.dtype, dst.dtype, precise=core.precise), skip=skip, where=inside)


def _dma_transpose(core: Core, ins: Instruction) -> None:
    """``dst = src`` with its first and last dimension exchanged; bits are kept.

    Rows of a source with a vector of indices are taken in the order of ``index.T.flatten()``.
    """
    (dst,), (src,) = ins.outs, ins.ins
    assert dst is not None  # noqa: S101
    assert src is not None  # noqa: S101
    held, inside = read_inside(core, ins, src, skip=ins.attributes["oob_mode"] == "skip")
    axes = TRANSPOSED[len(src.shape)]
    where = None if inside is None else inside.transpose(axes)
    write_raw(core, ins, dst, held.transpose(axes), where=where)


def _dma_compute(core: Core, ins: Instruction) -> None:
    """``dst = srcs[0] + srcs[1] + ...`` in float32, in that order, with one rounding.

    Where rows are named by indices, those out of bounds are left out if ``oob_mode`` says so.
    """
    (dst,) = ins.outs
    assert dst is not None  # noqa: S101
    skip = ins.attributes["oob_mode"] == "skip"
    if dst.dynamic is not None:
        _unique(core, ins, dst)
    total, inside = None, None
    for src in ins.ins:
        assert src is not None  # noqa: S101
        held, there = read_inside(core, ins, src, skip=skip)
        values = single(held, src.dtype).reshape(dst.shape)
        if there is not None:
            inside = there.reshape(dst.shape) if inside is None else inside & there.reshape(dst.shape)
        with np.errstate(all="ignore"):
            total = values if total is None else total + values
    assert total is not None  # noqa: S101
    write_raw(core, ins, dst, round_to(total, dst.dtype, precise=core.precise), skip=skip, where=inside)


def _unique(core: Core, ins: Instruction, dst: View) -> None:
    """Rows that are added to in place must differ, as each is read before any is written."""
    assert dst.dynamic is not None  # noqa: S101 - only indirect views come here
    indices = core.read(ins, dst.dynamic.index).reshape(-1)[: dst.shape[0]]
    indices = indices[(indices >= 0) & (indices < dst.dynamic.limit)]
    if len(np.unique(indices)) != len(indices):
        rows, counts = np.unique(indices, return_counts=True)
        raise broken(
            ins,
            "unique indices, as unique_indices=True says,",
            f"row {int(rows[counts > 1][0])} {int(counts.max())} times",
            "add up what goes to one row first",
            dst,
        )


HANDLERS: Mapping[str, Callable[[Core, Instruction], None]] = MappingProxyType(
    {"dma_copy": _dma_copy, "dma_transpose": _dma_transpose, "dma_compute": _dma_compute}
)
"""By opcode."""
