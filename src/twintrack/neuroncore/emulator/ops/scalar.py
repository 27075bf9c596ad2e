"""What activation functions, reciprocal, exponential and dropout compute.

Reductions along the way take float32 results before they are rounded to the destination's type; our choice, as the
documentation says "the activated data". A tile is summed first and then added to its accumulator register.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from twintrack.neuroncore.emulator import accumulators, alu
from twintrack.neuroncore.emulator.access import write_raw
from twintrack.neuroncore.emulator.activations import activate, in_valid_range
from twintrack.neuroncore.emulator.ops.operands import apply, destination, finish, scalar, there
from twintrack.neuroncore.emulator.ops.random import random_words
from twintrack.neuroncore.emulator.random_state import uniform
from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.isa.legality.common import broken
from twintrack.neuroncore.isa.operators import ACTIVATIONS, OPERATORS
from twintrack.neuroncore.memory.view import View

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core

__all__ = ["HANDLERS"]

Float32 = npt.NDArray[np.float32]
_ONE = np.float32(1)


def _activation(core: Core, ins: Instruction) -> None:
    """``dst = op(data * scale + bias)``, the product rounded before the sum; then the reduction."""
    dst, data = there(ins.outs[0]), there(ins.ins[0])
    x = core.read32(ins, data)
    scale = scalar(core, ins, ins.ins[2], ins.attributes["scale"], x.ndim)
    bias = scalar(core, ins, ins.ins[1], ins.attributes["bias"], x.ndim, dst)
    out = own = destination(core, dst, x.shape)
    if isinstance(scale, np.ndarray) or scale != _ONE:
        x = own = alu.binary("multiply", x, scale, out=own)
    if bias is not None:
        x = alu.binary("add", x, bias, out=own)
    if core.searched:
        _require_valid(ins, data, x)
    _activated(core, ins, data, activate(ins.attributes["op"], x, out=out), out)


def _activate2(core: Core, ins: Instruction) -> None:
    """``dst = op((data <op0> imm0) <op1> imm1)``; then the reduction."""
    dst, data = there(ins.outs[0]), there(ins.ins[0])
    attributes = ins.attributes
    x = core.read32(ins, data)
    operands = [scalar(core, ins, ins.ins[1 + at], attributes[f"imm{at}"], x.ndim, dst) for at in (0, 1)]
    slope = scalar(core, ins, ins.ins[3], attributes["relu_param"], x.ndim, dst)
    out = own = destination(core, dst, x.shape)
    for at, operand in enumerate(operands):
        op = attributes[f"op{at}"]
        if op != "bypass":
            x = own = apply(op, x, operand, reverse=attributes[f"reverse{at}"], out=own)
    if core.searched:
        _require_valid(ins, data, x)
    _activated(core, ins, data, activate(attributes["op"], x, parameter=slope, out=out), out)


def _require_valid(ins: Instruction, data: View, x: Float32) -> None:
    """Refuse inputs for which the function is documented to give invalid output; the documented limits are valid.

    Args:
        ins: the instruction.
        data: the operand that the inputs come from, which may have been scaled and shifted since.
        x: the inputs of the function.

    Raises:
        KernelError: naming their number, the first of them and the valid range.
    """
    function = ACTIVATIONS[ins.attributes["op"]]
    if not function.limited:
        return
    valid = in_valid_range(function.name, x)
    if valid.all():
        return
    first = tuple(int(one) for one in np.argwhere(~valid)[0])
    magnitude = "of magnitude " if function.of_magnitude else ""
    raise broken(
        ins,
        f"inputs {magnitude}from {function.low:.8g} to {function.high:.8g} for nl.{function.name}",
        f"{np.count_nonzero(~valid):,} of {x.size:,} outside, the first {x[first]:.8g} at {list(first)}",
        "scale, clamp or mask the data first; beyond its valid range the device gives invalid output",
        data,
    )


def _activated(core: Core, ins: Instruction, data: View, values: Float32, out: Float32 | None) -> None:
    """Write activated data and do what ``reduce_cmd`` asks of the Scalar Engine's registers."""
    dst, reduced = there(ins.outs[0]), ins.outs[1]
    command, op = ins.attributes["reduce_cmd"], ins.attributes["reduce_op"]
    if command != "idle":
        identity = OPERATORS[op].identity if op is not None else 0.0
        assert identity is not None  # noqa: S101 - every operator that the rules let through has one
        registers = accumulators.start(core, ins, data, command, identity)
        if command != "reset":
            registers = alu.binary(op, registers, _over_free(op, values), out=registers)
        accumulators.keep(core, data, registers, ins.engine)
    finish(core, ins, dst, values, out)
    if reduced is not None:
        core.write(ins, reduced, accumulators.held(core, ins, data))


def _over_free(op: str, values: Float32) -> Float32:
    return alu.reduce(op, values.reshape(values.shape[0], -1), 1)


def _exponential(core: Core, ins: Instruction) -> None:
    """``dst = exp(src - max_value)`` on the Vector Engine; then the sum."""
    dst, src, reduced = there(ins.outs[0]), there(ins.ins[0]), ins.outs[1]
    x = core.read32(ins, src)
    largest = scalar(core, ins, ins.ins[1], ins.attributes["max_value"], x.ndim)
    loaded = scalar(core, ins, ins.ins[2], ins.attributes["reduce_init"], 2, dst)
    out = destination(core, dst, x.shape)
    values = alu.binary("subtract", x, largest, out=out)
    values = activate("exp", values, out=values)
    command = ins.attributes["reduce_cmd"]
    if command == "idle":
        accumulators.forget(core, src, ins.engine)
    else:
        registers = accumulators.start(core, ins, src, command, 0.0, np.asarray(loaded))
        registers = alu.binary("add", registers, _over_free("add", values), out=registers)
        accumulators.keep(core, src, registers, ins.engine)
    finish(core, ins, dst, values, out)
    if reduced is not None:
        core.write(ins, reduced, accumulators.held(core, ins, src))


def _reciprocal(core: Core, ins: Instruction) -> None:
    """``dst = 1 / data``."""
    dst, x = there(ins.outs[0]), core.read32(ins, there(ins.ins[0]))
    out = destination(core, dst, x.shape)
    finish(core, ins, dst, alu.unary("reciprocal", x, out=out), out)


def _dropout(core: Core, ins: Instruction) -> None:
    """``dst`` keeps the bits of ``data`` where a uniform number reaches ``prob``, and is zero elsewhere; no scaling.

    One number per element in row-major order, from the Vector Engine's generator in the lanes of ``dst``; a
    probability of NaN drops everything.
    """
    dst, data = there(ins.outs[0]), there(ins.ins[0])
    held = core.read(ins, data)
    prob: Any = scalar(core, ins, ins.ins[1], ins.attributes["prob"], held.ndim)
    bits = random_words(core, ins.engine, dst)
    kept = np.where(uniform(bits).reshape(held.shape) >= prob, held, held.dtype.type(0))
    write_raw(core, ins, dst, kept)


HANDLERS: Mapping[str, Callable[[Core, Instruction], None]] = MappingProxyType(
    {
        "activation": _activation,
        "activation_reduce": _activation,
        "activate2": _activate2,
        "exponential": _exponential,
        "reciprocal": _reciprocal,
        "dropout": _dropout,
    }
)
"""By opcode."""
