"""Rules of activation functions, reciprocal, exponential and dropout.

Sources: docstrings of ``nki.isa.activation``, ``activation_reduce``, ``activate2``, ``exponential``, ``reciprocal`` and
``dropout``, and "NKI Engine Selection" in ``nki.api.shared.rst`` (AWS Neuron 2.32); the Trainium3 architecture guide
for what the Scalar Engine reduces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.isa.legality.common import broken
from twintrack.neuroncore.isa.legality.operands import (
    activation_function,
    agree,
    command_in,
    operator_in,
    reachable,
    tensors,
    vector_operand,
)
from twintrack.neuroncore.isa.legality.tiles import at_least, dimensions, one_per_partition, same_type
from twintrack.neuroncore.memory.dtypes import DTYPES
from twintrack.neuroncore.memory.generation import Generation
from twintrack.neuroncore.memory.view import View

__all__ = ["RULES"]

_FLOAT32 = frozenset({"float32"})
_FLOATS = frozenset(one for one in DTYPES.values() if one.is_float)
_BIAS = frozenset(one for one in DTYPES.values() if one.kind not in ("packed", "scale")) - {"tfloat32"}
_ACTIVATION_COMMANDS = ("idle", "reset", "reduce", "reset_reduce")
_ACTIVATE2_OPERATORS = ("add", "maximum", "minimum", "abs_max", "abs_min")
_ACTIVATE2_PAIRS = frozenset(
    {
        ("multiply", "add"),
        ("multiply", "subtract"),
        ("multiply", "bypass"),
        ("add", "bypass"),
        ("subtract", "bypass"),
        ("bypass", "bypass"),
    }
)
_EXPONENTIAL_REDUCED = frozenset({"float8_e4m3", "float8_e5m2", "float16", "bfloat16", "float32", "tfloat32"})
_EXPONENTIAL_OUT = _EXPONENTIAL_REDUCED | {"int8", "int16", "int32", "uint8", "uint16"}
_EXPONENTIAL_IN = _EXPONENTIAL_OUT - {"tfloat32"} | {"uint32"}


def _reduced(ins: Instruction, like: View) -> None:
    """``reduce_res`` where it is given: one element for each partition."""
    view = ins.outs[1]
    if view is not None:
        reachable(ins, view)
        one_per_partition(ins, view, like)


def _accumulates(ins: Instruction, allowed: tuple[str, ...]) -> None:
    """A reduction names an operator that the engine has."""
    command_in(ins, _ACTIVATION_COMMANDS)
    if ins.attributes["reduce_op"] is not None or ins.attributes["reduce_cmd"] in ("reduce", "reset_reduce"):
        operator_in(ins, "reduce_op", allowed)


def _activation(ins: Instruction, generation: Generation) -> None:
    dst, data = tensors(ins, "dst", "data")
    activation_function(ins)
    agree(ins, dst, data)
    vector_operand(ins, "scale", data, _FLOAT32, "float32")
    vector_operand(ins, "bias", data, _BIAS, "other than tfloat32")
    if ins.ins[2] is None and ins.attributes["scale"] is None:
        raise broken(ins, "a number or a tile (P, 1) as scale", "None", "leave it out, or pass 1.0")
    if generation.number < 3:
        if ins.attributes["bias"] is not None:
            raise broken(
                ins,
                "bias as a tile (P, 1) on trn1",
                f"{ins.attributes['bias']}",
                "fill a tile with nisa.memset",
            )
        if ins.attributes["op"] == "reciprocal" and ins.ins[1] is not None:
            raise broken(
                ins, "no bias for nl.reciprocal on trn1", "a bias", "add it with nisa.tensor_scalar first"
            )
    _accumulates(ins, ("add",))
    _reduced(ins, data)


def _activate2(ins: Instruction, generation: Generation) -> None:
    at_least(ins, generation, 4, "use nisa.activation")
    dst, data = tensors(ins, "dst", "data")
    activation_function(ins)
    agree(ins, dst, data)
    attributes = ins.attributes
    pair = (attributes["op0"], attributes["op1"])
    if pair not in _ACTIVATE2_PAIRS:
        raise broken(
            ins,
            "op0 and op1 among multiply then add, subtract or bypass; add, subtract or bypass then bypass",
            f"{pair[0]} then {pair[1]}",
            "choose a pair of these, or use nisa.tensor_scalar first",
        )
    for at, op in enumerate(pair):
        view, number = ins.ins[1 + at], attributes[f"imm{at}"]
        if op == "bypass" and attributes[f"reverse{at}"]:
            raise broken(
                ins, f"an operator as op{at} with reverse{at}", "nl.bypass", f"leave reverse{at} out"
            )
        if op != "bypass" and view is None and number is None:
            raise broken(ins, f"imm{at} for nl.{op}", "None", "pass a number or a tile (P, 1)")
        vector_operand(ins, f"imm{at}", data, None, "number")
    imm0, imm1 = ins.ins[1], ins.ins[2]
    if imm0 is not None and imm1 is not None:
        same_type(ins, imm0, imm1)
    vector_operand(ins, "relu_param", data, None, "number")
    _accumulates(ins, _ACTIVATE2_OPERATORS)
    _reduced(ins, data)


def _exponential(ins: Instruction, generation: Generation) -> None:
    at_least(ins, generation, 4, "use nisa.activation with op=nl.exp")
    dst, src = tensors(ins, "dst", "src")
    agree(ins, dst, src)
    for view, allowed in (
        (dst, _EXPONENTIAL_OUT),
        (src, _EXPONENTIAL_IN),
        (ins.outs[1], _EXPONENTIAL_REDUCED),
    ):
        if view is not None and view.dtype not in allowed:
            raise broken(ins, f"a type among {', '.join(sorted(allowed))}", view.dtype, "convert it", view)
    for view in (dst, src):
        dimensions(ins, view, 1, 4)
    vector_operand(ins, "max_value", src, _FLOAT32, "float32")
    vector_operand(ins, "reduce_init", src, _FLOAT32, "float32")
    command_in(ins, ("idle", "reset_reduce", "reduce", "load_reduce"))
    command = ins.attributes["reduce_cmd"]
    if command != "load_reduce" and (ins.ins[2] is not None or ins.attributes["reduce_init"] != 0):
        raise broken(ins, "reduce_init=0.0 without load_reduce", command, "leave it out, or pass load_reduce")
    if command == "idle" and ins.outs[1] is not None:
        raise broken(
            ins, "a reduce_cmd other than idle with reduce_res", "idle", "pass reduce_cmd.reset_reduce"
        )
    _reduced(ins, src)


def _reciprocal(ins: Instruction, generation: Generation) -> None:
    del generation
    dst, data = tensors(ins, "dst", "data")
    agree(ins, dst, data)


def _dropout(ins: Instruction, generation: Generation) -> None:
    del generation
    dst, data = tensors(ins, "dst", "data")
    agree(ins, dst, data)
    same_type(ins, data, dst)
    if ins.ins[1] is None and ins.attributes["prob"] is None:
        raise broken(ins, "a number or a tile (P, 1) as prob", "None", "pass one")
    if data.dtype.is_float:
        vector_operand(ins, "prob", data, _FLOATS, "float")
    else:
        vector_operand(ins, "prob", data, _FLOAT32, "float32 for integer data")


RULES: Mapping[str, Callable[[Instruction, Generation], None]] = MappingProxyType(
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
