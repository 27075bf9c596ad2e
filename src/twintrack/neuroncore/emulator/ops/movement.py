"""What instructions that move data compute: DMA (see ``dma``), copies, fills."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from twintrack.neuroncore.convert import cast, round_to
from twintrack.neuroncore.emulator.access import write_raw
from twintrack.neuroncore.emulator.ops import dma
from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.memory.dtypes import DType

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core

__all__ = ["HANDLERS"]

_FAR = 1 << 62


def _tensor_copy(core: Core, ins: Instruction) -> None:
    """``dst = src``: bits where the types agree, else through float32."""
    (dst,), (src,) = ins.outs, ins.ins
    assert dst is not None  # noqa: S101 - the operands of an issued instruction
    assert src is not None  # noqa: S101
    write_raw(core, ins, dst, cast(core.read(ins, src), src.dtype, dst.dtype, precise=core.precise))


def _tensor_copy_predicated(core: Core, ins: Instruction) -> None:
    """``dst = src`` where the predicate is not 0 (with ``reverse_pred``, where it is); the rest stays as it was."""
    (dst,), (src, predicate) = ins.outs, ins.ins
    assert dst is not None  # noqa: S101
    assert predicate is not None  # noqa: S101
    chosen = core.read(ins, predicate) != 0
    if ins.attributes["reverse_pred"]:
        chosen = ~chosen
    if src is None:
        held = np.broadcast_to(_number(ins.attributes["src"], dst.dtype, precise=core.precise), chosen.shape)
    else:
        held = core.read(ins, src).reshape(chosen.shape)
    write_raw(core, ins, dst, held, where=chosen)


def _memset(core: Core, ins: Instruction) -> None:
    """``dst = value``, rounded to its type."""
    (dst,) = ins.outs
    assert dst is not None  # noqa: S101
    held = _number(ins.attributes["value"], dst.dtype, precise=core.precise)
    write_raw(core, ins, dst, np.broadcast_to(held, dst.shape))


def _number(value: int | float, dtype: DType, *, precise: bool) -> npt.NDArray[Any]:
    """A number of the kernel's author as one element: integers exactly, all others by way of float32."""
    if dtype.kind == "packed":
        return np.zeros((), dtype.stored)  # no other value is let through
    if isinstance(value, int) and (dtype.is_integer or dtype.kind == "scale"):
        whole = np.array([max(-_FAR, min(value, _FAR))], np.int64)  # one beyond all types saturates
        return round_to(whole, dtype, precise=precise).reshape(())
    with np.errstate(over="ignore"):
        single = np.array([value], np.float32)
    return round_to(single, dtype, precise=precise).reshape(())


HANDLERS: Mapping[str, Callable[[Core, Instruction], None]] = MappingProxyType(
    {
        **dma.HANDLERS,
        "tensor_copy": _tensor_copy,
        "tensor_copy_predicated": _tensor_copy_predicated,
        "memset": _memset,
    }
)
"""By opcode."""
