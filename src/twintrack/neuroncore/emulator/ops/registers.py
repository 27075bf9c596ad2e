"""What registers do. These run without values too, as a register may be known then.

Our choices, where the documentation is silent. A register is read as a signed 32-bit integer, whatever integer type
it was loaded from; a store writes its low bits. A float32 that was loaded can only be moved and stored again as
float32. Arithmetic wraps modulo 2**32; division and remainder take operands that are not negative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from twintrack.neuroncore.emulator import access, valueless
from twintrack.neuroncore.isa.instruction import Instruction, Register
from twintrack.neuroncore.isa.legality.common import broken

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core

__all__ = ["HANDLERS", "held", "put", "signed"]

_BITS = 32


def signed(value: int) -> int:
    """The low 32 bits as a signed integer."""
    half = 1 << (_BITS - 1)
    return ((value + half) & ((1 << _BITS) - 1)) - half


def held(ins: Instruction, register: Register) -> int | float | None:
    """What a register holds; ``None`` where that is not known without values."""
    if not register.written:
        raise broken(
            ins,
            "a register that was written",
            f"register {register.number} (made at {register.line}) never written",
            "give register_alloc a number, or write it with register_move or register_load first",
        )
    return register.value


def put(ins: Instruction, register: Register, value: int | float | None) -> None:
    """Write a register; the record keeps what was written."""
    register.value = value
    register.written = True
    ins.attributes["value"] = value


def _register_move(core: Core, ins: Instruction) -> None:
    del core
    dst, *sources = ins.registers
    put(ins, dst, held(ins, sources[0]) if sources else ins.attributes["value"])


def _register_load(core: Core, ins: Instruction) -> None:
    (src,), (dst,) = ins.ins, ins.registers
    assert src is not None  # noqa: S101 - the operands of an issued instruction
    if not core.values:
        valueless.touch(core, ins)
        put(ins, dst, None)
        return
    found = core.read(ins, src).reshape(-1)[0]
    put(ins, dst, float(found) if src.dtype.is_float else signed(int(found)))


def _register_store(core: Core, ins: Instruction) -> None:
    (dst,), (src,) = ins.outs, ins.registers
    assert dst is not None  # noqa: S101
    value = held(ins, src)
    ins.attributes["value"] = value
    if not core.values:
        valueless.touch(core, ins)
        return
    if isinstance(value, float) is not dst.dtype.is_float:
        kind = "a float32" if isinstance(value, float) else "an integer"
        raise broken(
            ins,
            f"a destination of the kind of the register, which holds {kind},",
            dst.dtype,
            "store it as it was loaded and convert it with nisa.tensor_copy",
            dst,
        )
    if isinstance(value, float):
        core.write(ins, dst, np.full(dst.shape, value, np.float32))
    else:
        access.write_raw(core, ins, dst, np.full(dst.shape, value, np.int64).astype(dst.dtype.stored))


def _register_alu(core: Core, ins: Instruction) -> None:
    del core
    dst, *sources = ins.registers
    operands: list[int | float | None] = []
    for name in ("left", "right"):
        number = ins.attributes[name]
        operands.append(number if number is not None else held(ins, sources.pop(0)))
    left, right = operands
    if isinstance(left, float) or isinstance(right, float):
        raise broken(
            ins, "integers", "a register that holds a float32", "compute on tensors, then load the result"
        )
    put(ins, dst, None if left is None or right is None else _compute(ins, left, right))


def _compute(ins: Instruction, left: int, right: int) -> int:
    op = ins.attributes["op"]
    if op == "add":
        return signed(left + right)
    if op == "subtract":
        return signed(left - right)
    if op == "multiply":
        return signed(left * right)
    if left < 0 or right <= 0:
        raise broken(
            ins,
            f"{'//' if op == 'floor_divide' else '%'} with a dividend from 0 and a divisor from 1",
            f"{left} and {right}",
            "divide by a positive number" if right <= 0 else "add a multiple of the divisor first",
        )
    return left // right if op == "floor_divide" else left % right


HANDLERS: Mapping[str, Callable[[Core, Instruction], None]] = MappingProxyType(
    {
        "register_move": _register_move,
        "register_load": _register_load,
        "register_store": _register_store,
        "register_alu": _register_alu,
    }
)
"""By opcode."""
