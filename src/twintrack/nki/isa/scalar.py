"""``nki.isa``: activation functions, reciprocal, exponential, dropout."""

from __future__ import annotations

from typing import Any

from twintrack.neuroncore.isa.instruction import Engine
from twintrack.nki.isa.constants import reduce_cmd as _command
from twintrack.nki.isa.issue import NkiInstruction, flag, issue, number_or_tensor, op_name
from twintrack.nki.tensor import NkiTensor

__all__ = ["activate2", "activation", "activation_reduce", "dropout", "exponential", "reciprocal"]


def activation(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    bias: float | NkiTensor | None = None,
    scale: float | NkiTensor = 1.0,
    reduce_op: Any = None,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: _command = _command.idle,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = op(data * scale + bias)`` on the Scalar Engine in float32, and a sum over the free dimensions if asked.

    Args:
        dst: as many partitions and elements per partition as ``data``; SBUF or PSUM.
        op: an activation function such as ``nl.exp``.
        data: SBUF or PSUM.
        bias: a number (from NeuronCore-v3) or a tile ``(P, 1)``, not tfloat32; none for ``nl.reciprocal`` on
            NeuronCore-v2.
        scale: a number or a float32 tile ``(P, 1)``.
        reduce_op: ``nl.add``.
        reduce_res: tile ``(P, 1)`` for the accumulator registers as they stand after the instruction.
        reduce_cmd: what becomes of the Scalar Engine's registers: idle, reset, reduce or reset_reduce.
        name: for messages and profiles.

    Raises:
        KernelError: for shapes, types or operands that the engine does not take, or registers that nothing has set.
    """
    number, tensor = number_or_tensor(bias)
    factor, factors = number_or_tensor(scale)
    attributes = {
        "op": op_name(op),
        "bias": number,
        "scale": factor,
        "reduce_op": None if reduce_op is None else op_name(reduce_op),
        "reduce_cmd": reduce_cmd.name,
    }
    return issue("activation", Engine.SCALAR, (dst, reduce_res), (data, tensor, factors), attributes, name)


def activation_reduce(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    reduce_op: Any,
    reduce_res: NkiTensor | None,
    bias: float | NkiTensor | None = None,
    scale: float | NkiTensor = 1.0,
    name: str | None = None,
) -> NkiInstruction:
    """``activation`` with ``reduce_cmd.reset_reduce``: ``reduce_res`` is the sum of ``dst`` over the free dimensions.

    Args:
        dst: as for ``activation``.
        op: an activation function.
        data: SBUF or PSUM.
        reduce_op: ``nl.add``.
        reduce_res: tile ``(P, 1)``; ``None`` leaves the sum in the registers.
        bias: as for ``activation``.
        scale: as for ``activation``.
        name: for messages and profiles.

    Raises:
        KernelError: as ``activation``.
    """
    number, tensor = number_or_tensor(bias)
    factor, factors = number_or_tensor(scale)
    attributes = {
        "op": op_name(op),
        "bias": number,
        "scale": factor,
        "reduce_op": None if reduce_op is None else op_name(reduce_op),
        "reduce_cmd": "reset_reduce",
    }
    return issue(
        "activation_reduce", Engine.SCALAR, (dst, reduce_res), (data, tensor, factors), attributes, name
    )


def activate2(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    imm0: float | NkiTensor,
    imm1: float | NkiTensor,
    op0: Any,
    op1: Any,
    relu_param: float | NkiTensor = 0.0,
    reverse0: bool = False,
    reverse1: bool = False,
    reduce_op: Any = None,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: _command = _command.idle,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = op((data <op0> imm0) <op1> imm1)`` and a reduction if asked; Scalar Engine of NeuronCore-v4.

    Args:
        dst: as many partitions and elements per partition as ``data``; SBUF or PSUM.
        op: an activation function.
        data: SBUF or PSUM.
        imm0: a number or a tile ``(P, 1)``.
        imm1: likewise, of the type of ``imm0`` if both are tiles.
        op0: ``nl.multiply``, ``nl.add``, ``nl.subtract`` or ``nl.bypass``.
        op1: after multiply ``nl.add`` or ``nl.subtract``; else ``nl.bypass``.
        relu_param: slope of ``nl.prelu`` below zero: a number or a tile ``(P, 1)``.
        reverse0: ``imm0 <op0> data``.
        reverse1: ``imm1 <op1> (...)``.
        reduce_op: ``nl.add``, ``nl.maximum``, ``nl.minimum``, ``nl.abs_max`` or ``nl.abs_min``.
        reduce_res: tile ``(P, 1)`` for the accumulator registers as they stand after the instruction.
        reduce_cmd: idle, reset, reduce or reset_reduce.
        name: for messages and profiles.

    Raises:
        KernelError: on earlier generations, and as ``activation``.
    """
    number0, tensor0 = number_or_tensor(imm0)
    number1, tensor1 = number_or_tensor(imm1)
    slope, slopes = number_or_tensor(relu_param)
    attributes = {
        "op": op_name(op),
        "imm0": number0,
        "imm1": number1,
        "op0": "bypass" if op0 is None else op_name(op0),
        "op1": "bypass" if op1 is None else op_name(op1),
        "relu_param": slope,
        "reverse0": reverse0 if type(reverse0) is bool else flag("reverse0", reverse0),
        "reverse1": reverse1 if type(reverse1) is bool else flag("reverse1", reverse1),
        "reduce_op": None if reduce_op is None else op_name(reduce_op),
        "reduce_cmd": reduce_cmd.name,
    }
    ins = (data, tensor0, tensor1, slopes)
    return issue("activate2", Engine.SCALAR, (dst, reduce_res), ins, attributes, name)


def exponential(
    dst: NkiTensor,
    src: NkiTensor,
    max_value: float | NkiTensor = 0.0,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: _command = _command.idle,
    reduce_init: float | NkiTensor = 0.0,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = exp(src - max_value)`` and its sum if asked, on the Vector Engine of NeuronCore-v4.

    Args:
        dst: as many partitions and elements per partition as ``src``; up to four dimensions.
        src: SBUF or PSUM.
        max_value: a number or a float32 tile ``(P, 1)``.
        reduce_res: tile ``(P, 1)`` for the sum; not with ``idle``.
        reduce_cmd: idle (which leaves the Vector Engine's registers unknown), reset_reduce, reduce or load_reduce.
        reduce_init: a number or a float32 tile ``(P, 1)`` from which ``load_reduce`` starts; 0.0 otherwise.
        name: for messages and profiles.

    Raises:
        KernelError: on earlier generations, for shapes or types that the engine does not take, or registers that
            nothing has set.
    """
    largest, largests = number_or_tensor(max_value)
    start, starts = number_or_tensor(reduce_init)
    attributes = {"max_value": largest, "reduce_init": start, "reduce_cmd": reduce_cmd.name}
    if start is None and starts is None:
        attributes["reduce_init"] = 0.0
    return issue("exponential", Engine.VECTOR, (dst, reduce_res), (src, largests, starts), attributes, name)


def reciprocal(dst: NkiTensor, data: NkiTensor, name: str | None = None) -> NkiInstruction:
    """``dst = 1 / data`` on the Vector Engine in float32.

    Args:
        dst: as many partitions and elements per partition as ``data``; SBUF or PSUM.
        data: SBUF or PSUM.
        name: for messages and profiles.

    Raises:
        KernelError: for unequal shapes, or types that are no numbers.
    """
    return issue("reciprocal", Engine.VECTOR, (dst,), (data,), {}, name)


def dropout(
    dst: NkiTensor, data: NkiTensor, prob: float | NkiTensor, name: str | None = None
) -> NkiInstruction:
    """``dst`` is ``data`` with elements replaced by zeros at random, on the Vector Engine; nothing is scaled.

    Args:
        dst: of the shape and type of ``data``.
        data: SBUF or PSUM.
        prob: probability of a zero: a number, or a tile ``(P, 1)`` of floats, float32 for integer data.
        name: for messages and profiles.

    Raises:
        KernelError: for unequal shapes or types, or a type of ``prob`` that the engine does not take.
    """
    number, tensor = number_or_tensor(prob)
    return issue("dropout", Engine.VECTOR, (dst,), (data, tensor), {"prob": number}, name)
