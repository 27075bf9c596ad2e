"""What instructions that move data compute: DMA, copies, fills."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from twintrack.neuroncore.convert import cast, round_to
from twintrack.neuroncore.emulator.access import read_dynamic, resolve, write_raw
from twintrack.neuroncore.isa.instruction import Instruction

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core

__all__ = ["HANDLERS"]


def _dma_copy(core: Core, ins: Instruction) -> None:
    """``dst = src`` element by element in row-major order, cast through float32 where the types differ."""
    (dst,), (src,) = ins.outs, ins.ins
    assert dst is not None  # noqa: S101 - the operands of an issued instruction
    assert src is not None  # noqa: S101
    skip = ins.attributes["oob_mode"] == "skip"
    if skip and src.dynamic is not None:
        if src.dynamic.kind == "scalar" and resolve(core, ins, src, skip=True) is None:
            return
        held = read_dynamic(core, ins, src, skip=True)
    else:
        held = core.read(ins, src)
    write_raw(core, ins, dst, cast(held, src.dtype, dst.dtype, precise=core.precise), skip=skip)


def _tensor_copy(core: Core, ins: Instruction) -> None:
    """``dst = src``: bits where the types agree, else through float32."""
    (dst,), (src,) = ins.outs, ins.ins
    assert dst is not None  # noqa: S101
    assert src is not None  # noqa: S101
    write_raw(core, ins, dst, cast(core.read(ins, src), src.dtype, dst.dtype, precise=core.precise))


def _memset(core: Core, ins: Instruction) -> None:
    """``dst = value``, rounded to its type."""
    (dst,) = ins.outs
    assert dst is not None  # noqa: S101
    value = ins.attributes["value"]
    one = np.array([value], np.int64 if isinstance(value, int) and dst.dtype.is_integer else np.float32)
    held = round_to(one, dst.dtype, precise=core.precise)
    write_raw(core, ins, dst, np.broadcast_to(held.reshape((1,) * len(dst.shape)), dst.shape))


HANDLERS: Mapping[str, Callable[[Core, Instruction], None]] = MappingProxyType(
    {"dma_copy": _dma_copy, "tensor_copy": _tensor_copy, "memset": _memset}
)
"""By opcode."""
