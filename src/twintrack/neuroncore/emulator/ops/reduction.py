"""What reductions, scans and batch-norm statistics compute.

All in float32, rounded once when results are written, but for bitvec operators, which take bits, and reductions over
partitions of 32-bit integers, which GpSimd computes in integers. Orders of sums and scans: ``emulator.alu``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from twintrack.neuroncore.emulator import accumulators, alu
from twintrack.neuroncore.emulator.access import write_raw
from twintrack.neuroncore.emulator.ops.operands import apply, destination, finish, scalar, there
from twintrack.neuroncore.emulator.quiet import silent
from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.isa.operators import OPERATORS
from twintrack.neuroncore.memory.view import View

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core

__all__ = ["HANDLERS"]

Float32 = npt.NDArray[np.float32]
_EXACT = frozenset({"int32", "uint32"})


def _bits(core: Core, ins: Instruction, dst: View, result: npt.NDArray[Any]) -> None:
    """The low bits of integers as the destination's type, sign-extended where that is wider."""
    write_raw(core, ins, dst, result.astype(dst.dtype.stored, copy=False))


def _flat(values: Float32) -> Float32:
    """All free dimensions as one."""
    return values if values.ndim == 2 else values.reshape(values.shape[0], -1)


def _tensor_reduce(core: Core, ins: Instruction) -> None:
    """``dst`` is ``data`` combined by ``op`` over its last axes, negated if asked."""
    dst, data = there(ins.outs[0]), there(ins.ins[0])
    op, axes = ins.attributes["op"], ins.attributes["axis"]
    if OPERATORS[op].category == "bitvec":
        _bits(core, ins, dst, alu.reduce(op, core.read(ins, data), axes))
        return
    result = alu.reduce(op, core.read32(ins, data), axes)
    core.write(ins, dst, np.negative(result, out=result) if ins.attributes["negate"] else result)


def _tensor_partition_reduce(core: Core, ins: Instruction) -> None:
    """``dst`` is ``data`` combined over its partitions."""
    dst, data = there(ins.outs[0]), there(ins.ins[0])
    op = ins.attributes["op"]
    exact = op != "average" and data.dtype in _EXACT and dst.dtype in _EXACT
    if exact or OPERATORS[op].category == "bitvec":
        _bits(core, ins, dst, alu.reduce(op, core.read(ins, data), 0, keepdims=True))
    else:
        core.write(ins, dst, alu.reduce(op, core.read32(ins, data), 0, keepdims=True))


def _tensor_scalar_reduce(core: Core, ins: Instruction) -> None:
    """``dst = data <op0> operand0``, and its reduction on top of the accumulator registers."""
    dst, data, reduced = there(ins.outs[0]), there(ins.ins[0]), ins.outs[1]
    attributes = ins.attributes
    op = attributes["reduce_op"]
    x = core.read32(ins, data)
    operand = scalar(core, ins, ins.ins[1], attributes["operand0"], x.ndim)
    loaded = scalar(core, ins, ins.ins[2], attributes["reduce_init"], 2)
    identity = OPERATORS[op].identity
    assert identity is not None  # noqa: S101 - the rules let through operators that have one
    registers = accumulators.start(
        core, ins, data, attributes["reduce_cmd"], identity, None if loaded is None else np.asarray(loaded)
    )
    out = destination(core, dst, x.shape)
    result = apply(attributes["op0"], x, operand, reverse=False, out=out)
    registers = alu.binary(op, registers, alu.reduce(op, _flat(result), 1), out=registers)
    accumulators.keep(core, data, registers, ins.engine)
    finish(core, ins, dst, result, out)
    if reduced is not None:
        core.write(ins, reduced, np.negative(registers) if attributes["reduce_res_negate"] else registers)


def _tensor_scalar_cumulative(core: Core, ins: Instruction) -> None:
    """``reg = (src[i] <op0> imm0) <op1> reg; dst[i] = reg`` along the free dimensions."""
    dst, src = there(ins.outs[0]), there(ins.ins[0])
    attributes = ins.attributes
    op = attributes["op1"]
    x = _flat(core.read32(ins, src))
    operand = scalar(core, ins, ins.ins[1], attributes["imm0"], 2)
    loaded = scalar(core, ins, ins.ins[2], attributes["imm1"], 2)
    identity = OPERATORS[op].identity
    assert identity is not None  # noqa: S101 - the rules let through operators that have one
    start = accumulators.start(
        core, ins, src, attributes["reduce_cmd"], identity, None if loaded is None else np.asarray(loaded)
    )
    result = alu.cumulative(op, apply(attributes["op0"], x, operand, reverse=False, out=None), start[:, None])
    accumulators.keep(core, src, result[:, -1], ins.engine)
    core.write(ins, dst, result)


def _tensor_tensor_scan(core: Core, ins: Instruction) -> None:
    """``r[i] = (data0[i] <op0> r[i-1]) <op1> data1[i]`` along the free dimensions; ``dst = r``."""
    dst, data0, data1 = there(ins.outs[0]), there(ins.ins[0]), there(ins.ins[1])
    attributes = ins.attributes
    initial = scalar(core, ins, ins.ins[2], attributes["initial"], 2)
    result = alu.scan(
        attributes["op0"],
        attributes["op1"],
        _flat(core.read32(ins, data0)),
        _flat(core.read32(ins, data1)),
        initial,
        reverse0=attributes["reverse0"],
        reverse1=attributes["reverse1"],
    )
    core.write(ins, dst, result)


def _bn_stats(core: Core, ins: Instruction) -> None:
    """Count, mean and ``variance * count`` of the even elements of each partition, then of the odd ones."""
    dst, x = there(ins.outs[0]), _flat(core.read32(ins, there(ins.ins[0])))
    result = np.zeros((len(x), 6), np.float32)
    with silent():
        for at in (0, 1):
            part = x[:, at::2]
            count = part.shape[1]
            if not count:  # a single element leaves no odd ones: count, mean and variance are zero
                continue
            mean = alu.reduce("average", part, 1, keepdims=True)
            deviation = part - mean
            result[:, 3 * at] = count
            result[:, 3 * at + 1] = mean[:, 0]
            result[:, 3 * at + 2] = alu.reduce("add", deviation * deviation, 1)
    core.write(ins, dst, result)


def _bn_aggr(core: Core, ins: Instruction) -> None:
    """Mean and variance of all elements from ``(count, mean, variance * count)`` of their parts.

    ``mean = sum(count * mean) / n``, ``variance = (sum(variance * count) + sum(count * (mean_i - mean)**2)) / n``.
    """
    dst, parts = there(ins.outs[0]), _flat(core.read32(ins, there(ins.ins[0])))
    counts, means, squares = (np.ascontiguousarray(parts[:, at::3]) for at in range(3))
    with silent():
        total = np.add.reduce(counts, axis=1, keepdims=True)
        mean = np.add.reduce(counts * means, axis=1, keepdims=True) / total
        apart = means - mean
        variance = np.add.reduce(squares + counts * (apart * apart), axis=1, keepdims=True) / total
    core.write(ins, dst, np.concatenate([mean, variance], axis=1))


HANDLERS: Mapping[str, Callable[[Core, Instruction], None]] = MappingProxyType(
    {
        "tensor_reduce": _tensor_reduce,
        "tensor_partition_reduce": _tensor_partition_reduce,
        "tensor_scalar_reduce": _tensor_scalar_reduce,
        "tensor_scalar_cumulative": _tensor_scalar_cumulative,
        "tensor_tensor_scan": _tensor_tensor_scan,
        "bn_stats": _bn_stats,
        "bn_aggr": _bn_aggr,
    }
)
"""By opcode."""
