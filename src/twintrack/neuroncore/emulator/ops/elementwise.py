"""What elementwise instructions on two tensors, or a tensor and scalars, compute.

Three ways, by operator, engine and types: on bit patterns (bitvec operators; the result's low bits are written as they
are, never saturated), on 32-bit integers (GpSimd, all operands int32 or uint32; the result wraps), else in float32 with
one rounding when it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from twintrack.neuroncore.emulator import alu
from twintrack.neuroncore.emulator.access import write_raw
from twintrack.neuroncore.emulator.ops.operands import apply, destination, finish, scalar, there
from twintrack.neuroncore.isa.instruction import Engine, Instruction
from twintrack.neuroncore.isa.operators import OPERATORS
from twintrack.neuroncore.memory.view import View

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core

__all__ = ["HANDLERS"]

Array = npt.NDArray[Any]

_EXACT = frozenset({"int32", "uint32"})
_REAL = frozenset({"divide", "fmod", "mod"})
"""Operators that GpSimd computes in float32 for integers too; our choice, as no page says so."""


def _tensor_tensor(core: Core, ins: Instruction) -> None:
    """``dst = data1 <op> data2``."""
    dst, data1, data2 = there(ins.outs[0]), there(ins.ins[0]), there(ins.ins[1])
    op = ins.attributes["op"]
    if OPERATORS[op].category == "bitvec":
        a, b = core.read(ins, data1), core.read(ins, data2)
        _write_bits(core, ins, dst, alu.binary(op, a, b if b.shape == a.shape else b.reshape(a.shape)))
        return
    if ins.engine is Engine.GPSIMD and op not in _REAL and _all_exact(dst, data1, data2):
        a, b = core.read(ins, data1), core.read(ins, data2)
        if a.dtype != b.dtype:
            a, b = a.astype(np.int64), b.astype(np.int64)
        _write_bits(core, ins, dst, alu.binary(op, a, b if b.shape == a.shape else b.reshape(a.shape)))
        return
    x, y = core.read32(ins, data1), core.read32(ins, data2)
    if y.shape != x.shape:
        y = y.reshape(x.shape)
    out = destination(core, dst, x.shape)
    finish(core, ins, dst, alu.binary(op, x, y, out=out), out)


def _all_exact(*views: View) -> bool:
    return all(view.dtype in _EXACT for view in views)


def _write_bits(core: Core, ins: Instruction, dst: View, result: Array) -> None:
    """The low bits of integers as the destination's type, sign-extended where that is wider."""
    write_raw(core, ins, dst, result.astype(dst.dtype.stored, copy=False))


def _tensor_scalar(core: Core, ins: Instruction) -> None:
    """``dst = (data <op0> operand0) <op1> operand1``."""
    dst, data = there(ins.outs[0]), there(ins.ins[0])
    attributes = ins.attributes
    op0, op1 = attributes["op0"], attributes["op1"]
    if OPERATORS[op0].category == "bitvec":
        _tensor_scalar_bits(core, ins, dst, data)
        return
    x = core.read32(ins, data)
    first = scalar(core, ins, ins.ins[1], attributes["operand0"], x.ndim)
    second = scalar(core, ins, ins.ins[2], attributes["operand1"], x.ndim, dst)
    out = destination(core, dst, x.shape)
    result = apply(op0, x, first, reverse=attributes["reverse0"], out=out)
    if op1 is not None:
        result = apply(op1, result, second, reverse=attributes["reverse1"], out=result)
    finish(core, ins, dst, result, out)


def _tensor_scalar_bits(core: Core, ins: Instruction, dst: View, data: View) -> None:
    result = core.read(ins, data)
    attributes = ins.attributes
    for at in (0, 1):
        op = attributes[f"op{at}"]
        if op is None:
            break
        if OPERATORS[op].operands == 1:
            result = alu.unary(op, result)
            continue
        operand = _bits(core, ins, ins.ins[at + 1], attributes[f"operand{at}"], result)
        result = (
            alu.binary(op, operand, result) if attributes[f"reverse{at}"] else alu.binary(op, result, operand)
        )
    _write_bits(core, ins, dst, result)


def _bits(core: Core, ins: Instruction, view: View | None, number: Any, like: Array) -> Array:
    """An operand of bitvec operators: a vector's bits, or a number cut to the width of the data."""
    if view is not None:
        return core.read(ins, view).reshape(-1, *(1,) * (like.ndim - 1))
    width = like.dtype.itemsize
    pattern = np.array(int(number) & ((1 << 8 * width) - 1), dtype=f"u{width}")
    return pattern.view(like.dtype)


def _scalar_tensor_tensor(core: Core, ins: Instruction) -> None:
    """``dst = (data <op0> operand0) <op1> operand1`` with a scalar and a tile."""
    dst, data, tile = there(ins.outs[0]), there(ins.ins[0]), there(ins.ins[2])
    attributes = ins.attributes
    x, y = core.read32(ins, data), core.read32(ins, tile)
    if y.shape != x.shape:
        y = y.reshape(x.shape)
    first = scalar(core, ins, ins.ins[1], attributes["operand0"], x.ndim)
    out = destination(core, dst, x.shape)
    # the second operand is read after op0 has written where that goes straight into dst
    inner = out if tile.storage is not dst.storage else None
    result = apply(attributes["op0"], x, first, reverse=attributes["reverse0"], out=inner)
    result = apply(
        attributes["op1"], result, y, reverse=attributes["reverse1"], out=result if out is None else out
    )
    finish(core, ins, dst, result, out)


HANDLERS: Mapping[str, Callable[[Core, Instruction], None]] = MappingProxyType(
    {
        "tensor_tensor": _tensor_tensor,
        "tensor_scalar": _tensor_scalar,
        "scalar_tensor_tensor": _scalar_tensor_tensor,
    }
)
"""By opcode."""
