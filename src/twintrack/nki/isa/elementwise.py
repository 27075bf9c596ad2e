"""``nki.isa``: elementwise instructions on two tensors, or a tensor and scalars."""

from __future__ import annotations

from typing import Any

from twintrack.neuroncore.isa.instruction import Engine
from twintrack.neuroncore.isa.operators import OPERATORS
from twintrack.nki.isa.constants import engine as _engine
from twintrack.nki.isa.issue import NkiInstruction, choose, flag, issue, number_or_tensor, op_name
from twintrack.nki.isa.movement import in_psum
from twintrack.nki.tensor import NkiTensor

__all__ = ["scalar_tensor_tensor", "tensor_scalar", "tensor_tensor"]

_EXACT = frozenset({"int32", "uint32"})
_REAL = frozenset({"divide", "fmod", "mod"})


def tensor_tensor(
    dst: NkiTensor,
    data1: NkiTensor,
    data2: NkiTensor,
    op: Any,
    engine: _engine = _engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = data1 <op> data2``, element by element.

    Bitvec operators work on the bits of integers. Arithmetic ones compute in float32 and round once, but for 32-bit
    integers, which run on GpSimd in integers unless an operand is in PSUM or the Vector Engine is named.

    Args:
        dst: SBUF or PSUM.
        data1: as many partitions and elements per partition as ``dst``.
        data2: likewise; not both in PSUM.
        op: a binary operator such as ``nl.add``; ``nl.power`` runs on GpSimd, bitvec operators on Vector.
        engine: vector or gpsimd.
        name: for messages and profiles.

    Raises:
        KernelError: for unequal shapes, two inputs in PSUM, or types or an engine that the operator does not take.
    """
    operator = op_name(op)
    default = Engine.VECTOR
    if operator == "power":
        default = Engine.GPSIMD
    elif _is_exact(data1) and _is_exact(data2) and _is_exact(dst) and operator not in _REAL:
        known = OPERATORS.get(operator)
        if known is not None and known.category != "bitvec" and not in_psum(dst, data1, data2):
            default = Engine.GPSIMD
    return issue("tensor_tensor", choose(engine, default), (dst,), (data1, data2), {"op": operator}, name)


def _is_exact(operand: object) -> bool:
    return isinstance(operand, NkiTensor) and operand.dtype in _EXACT


def tensor_scalar(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Any,
    operand0: float | NkiTensor | None,
    reverse0: bool = False,
    op1: Any = None,
    operand1: float | NkiTensor | None = None,
    reverse1: bool = False,
    engine: _engine = _engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = (data <op0> operand0) <op1> operand1``, operands broadcast along the free dimensions.

    Arithmetic operators compute in float32 and round once; bitvec ones work on the bits of integers.

    Args:
        dst: SBUF or PSUM.
        data: as many partitions and elements per partition as ``dst``; SBUF or PSUM.
        op0: first operator.
        operand0: a number or a tile ``(data.shape[0], 1)``, float32 for arithmetic; ``None`` or 0 if ``op0`` is unary.
        reverse0: ``operand0 <op0> data``.
        op1: second operator, bitvec if ``op0`` is and only then; or none.
        operand1: likewise; ``None`` without ``op1``.
        reverse1: ``operand1 <op1> (...)``.
        engine: vector (default), scalar from NeuronCore-v3, or gpsimd, which is the default for ``nl.rsqrt`` and takes
            nothing else.
        name: for messages and profiles.

    Raises:
        KernelError: for unequal shapes, mixed kinds of operators, or types, operands or an engine that they refuse.
    """
    first, second = op_name(op0), None if op1 is None else op_name(op1)
    number0, tensor0 = (operand0, None) if type(operand0) is float else number_or_tensor(operand0)
    number1, tensor1 = (None, None) if operand1 is None else number_or_tensor(operand1)
    attributes = {
        "op0": first,
        "operand0": number0,
        "reverse0": reverse0 if type(reverse0) is bool else flag("reverse0", reverse0),
        "op1": second,
        "operand1": number1,
        "reverse1": reverse1 if type(reverse1) is bool else flag("reverse1", reverse1),
    }
    default = Engine.GPSIMD if "rsqrt" in (first, second) else Engine.VECTOR
    return issue("tensor_scalar", choose(engine, default), (dst,), (data, tensor0, tensor1), attributes, name)


def scalar_tensor_tensor(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Any,
    operand0: float | NkiTensor,
    op1: Any,
    operand1: NkiTensor,
    reverse0: bool = False,
    reverse1: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = (data <op0> operand0) <op1> operand1`` with a scalar and a tile, on the Vector Engine in float32.

    Args:
        dst: SBUF or PSUM.
        data: as many partitions and elements per partition as ``dst``.
        op0: an arithmetic operator.
        operand0: a number, or a tile ``(data.shape[0], 1)``.
        op1: a binary arithmetic operator.
        operand1: a tile like ``data``; not both in PSUM.
        reverse0: ``operand0 <op0> data``.
        reverse1: ``operand1 <op1> (...)``.
        name: for messages and profiles.

    Raises:
        KernelError: for unequal shapes, two tiles in PSUM, or bitvec operators.
    """
    number, tensor = number_or_tensor(operand0)
    attributes = {
        "op0": op_name(op0),
        "operand0": number,
        "reverse0": reverse0 if type(reverse0) is bool else flag("reverse0", reverse0),
        "op1": op_name(op1),
        "reverse1": reverse1 if type(reverse1) is bool else flag("reverse1", reverse1),
    }
    return issue("scalar_tensor_tensor", Engine.VECTOR, (dst,), (data, tensor, operand1), attributes, name)
