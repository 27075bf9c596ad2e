"""Rules of elementwise instructions on two tensors, or a tensor and scalars.

Sources: docstrings of ``nki.isa.tensor_tensor``, ``tensor_scalar`` and ``scalar_tensor_tensor`` (AWS Neuron 2.32);
which engine has which operator: the operator tables of 2.26 and 2.32 (``nki.api.shared.rst``) and the architecture
guides of Trainium2 and Trainium3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from twintrack.neuroncore.isa.instruction import Engine, Instruction
from twintrack.neuroncore.isa.legality.common import broken
from twintrack.neuroncore.isa.legality.operands import (
    agree,
    engine_in,
    integers,
    not_both_in_psum,
    operator,
    scalar_operand,
    tensors,
)
from twintrack.neuroncore.isa.operators import Operator
from twintrack.neuroncore.memory.generation import Generation

__all__ = ["RULES"]

_FLOAT32 = frozenset({"float32"})
_VECTOR_GPSIMD = frozenset({Engine.VECTOR, Engine.GPSIMD})
_ELEMENTWISE = frozenset({Engine.VECTOR, Engine.GPSIMD, Engine.SCALAR})
_SCALAR_PAIRS = frozenset({("multiply", "add"), ("multiply", None), ("add", None)})
"""What the Scalar Engine of NeuronCore-v3 computes in a tensor_scalar."""


def _binary(ins: Instruction, generation: Generation, argument: str) -> Operator:
    op = operator(ins, generation, argument)
    if op.operands != 2:
        raise broken(ins, f"a binary operator as {argument}", op.name, "choose one such as nl.add")
    return op


def _tensor_tensor(ins: Instruction, generation: Generation) -> None:
    dst, data1, data2 = tensors(ins, "dst", "data1", "data2")
    engine_in(ins, _VECTOR_GPSIMD, "Vector or GpSimd Engine")
    op = _binary(ins, generation, "op")
    if op.name == "power":
        engine_in(ins, {Engine.GPSIMD}, "GpSimd Engine for nl.power")
    agree(ins, dst, data1, data2)
    if op.category == "bitvec":
        engine_in(ins, {Engine.VECTOR}, f"Vector Engine for the bitvec operator {op.name}")
        integers(ins, op.name, dst, data1, data2)
    not_both_in_psum(ins, data1, data2)


def _tensor_scalar(ins: Instruction, generation: Generation) -> None:
    dst, data = tensors(ins, "dst", "data")
    engine_in(ins, _ELEMENTWISE, "Vector, Scalar or GpSimd Engine")
    agree(ins, dst, data)
    op0 = operator(ins, generation, "op0")
    scalar_operand(ins, "operand0", op0, data, _FLOAT32, "float32")
    ops = [op0]
    if ins.attributes["op1"] is not None:
        op1 = operator(ins, generation, "op1")
        scalar_operand(ins, "operand1", op1, data, _FLOAT32, "float32")
        ops.append(op1)
    elif ins.ins[2] is not None or ins.attributes["operand1"] is not None:
        raise broken(ins, "operand1=None without op1", "an operand", "pass op1, or leave operand1 out")
    if len({op.category for op in ops}) > 1:
        raise broken(
            ins,
            "op0 and op1 both bitvec or both arithmetic",
            f"{op0.name} and {ops[-1].name}",
            "use two instructions",
        )
    if op0.category == "bitvec":
        engine_in(ins, {Engine.VECTOR}, "Vector Engine for bitvec operators")
        integers(ins, op0.name, dst, data)
    _tensor_scalar_engine(ins, generation, ops)


def _tensor_scalar_engine(ins: Instruction, generation: Generation, ops: list[Operator]) -> None:
    names = [op.name for op in ops]
    if ins.engine is Engine.GPSIMD and "rsqrt" not in names:
        raise broken(ins, "nl.rsqrt on GpSimd Engine", " and ".join(names), "use the Vector Engine")
    if ins.engine is Engine.VECTOR and "rsqrt" in names:
        raise broken(
            ins,
            "GpSimd Engine for nl.rsqrt",
            "Vector Engine",
            "leave engine unset, or use nl.power with -0.5",
        )
    if ins.engine is not Engine.SCALAR or generation.number >= 4:
        return
    if generation.number < 3:
        raise broken(
            ins,
            "Vector or GpSimd Engine on trn1",
            "Scalar Engine",
            "leave engine unset, or use nisa.activation",
        )
    pair = (names[0], names[1] if len(names) > 1 else None)
    if pair not in _SCALAR_PAIRS:
        raise broken(
            ins,
            "multiply, add, or multiply then add on the Scalar Engine of trn2",
            " then ".join(names),
            "use the Vector Engine",
        )


def _scalar_tensor_tensor(ins: Instruction, generation: Generation) -> None:
    dst, data, operand1 = tensors(ins, "dst", "data", "operand1")
    engine_in(ins, {Engine.VECTOR}, "Vector Engine")
    agree(ins, data, operand1, dst)
    op0, op1 = operator(ins, generation, "op0"), _binary(ins, generation, "op1")
    for argument, op in (("op0", op0), ("op1", op1)):
        if op.category == "bitvec":
            raise broken(ins, f"an arithmetic operator as {argument}", op.name, "use nisa.tensor_tensor")
    scalar_operand(ins, "operand0", op0, data, None, "number")
    not_both_in_psum(ins, data, operand1)


RULES: Mapping[str, Callable[[Instruction, Generation], None]] = MappingProxyType(
    {
        "tensor_tensor": _tensor_tensor,
        "tensor_scalar": _tensor_scalar,
        "scalar_tensor_tensor": _scalar_tensor_tensor,
    }
)
"""By opcode."""
