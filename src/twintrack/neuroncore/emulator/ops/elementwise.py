"""What elementwise instructions on two tensors, or a tensor and scalars, compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from twintrack.neuroncore.emulator import alu
from twintrack.neuroncore.isa.instruction import Engine, Instruction
from twintrack.neuroncore.isa.operators import OPERATORS

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core

__all__ = ["HANDLERS"]

_EXACT = frozenset({"int32", "uint32"})


def _tensor_tensor(core: Core, ins: Instruction) -> None:
    """``dst = data1 <op> data2``: on bits, on 32-bit integers by GpSimd, else in float32 with one rounding."""
    (dst,), (data1, data2) = ins.outs, ins.ins
    assert dst is not None  # noqa: S101 - the operands of an issued instruction
    assert data1 is not None  # noqa: S101
    assert data2 is not None  # noqa: S101
    op = ins.attributes["op"]
    kinds = {data1.dtype, data2.dtype, dst.dtype}
    if OPERATORS[op].category == "bitvec" or (ins.engine is Engine.GPSIMD and kinds <= _EXACT):
        a, b = core.read(ins, data1), core.read(ins, data2)
    else:
        a, b = core.read32(ins, data1), core.read32(ins, data2)
        if dst.dtype == "float32" and dst.dynamic is None and dst.shape == a.shape == b.shape:
            alu.binary(op, a, b, out=dst.array())
            core.wrote(dst)
            return
    if b.shape != a.shape:
        b = b.reshape(a.shape)
    core.write(ins, dst, alu.binary(op, a, b))


HANDLERS: Mapping[str, Callable[[Core, Instruction], None]] = MappingProxyType(
    {"tensor_tensor": _tensor_tensor}
)
"""By opcode."""
