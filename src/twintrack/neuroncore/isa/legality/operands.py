"""Rules of operands and operators that elementwise instructions and reductions share.

Sources: docstrings of ``nki.isa`` and the operator table (``nki.api.shared.rst``) of the AWS Neuron documentation
2.32; free sizes of the Vector and Scalar Engines: the Trainium1 architecture guide.
"""

from __future__ import annotations

from collections.abc import Container

from twintrack.neuroncore.isa.instruction import Engine, Instruction
from twintrack.neuroncore.isa.legality.common import (
    SBUF_PSUM,
    broken,
    is_output,
    name_of,
    partitions_agree,
    region_in,
    same_free_size,
    start_partition,
)
from twintrack.neuroncore.isa.legality.tiles import number_type, one_per_partition
from twintrack.neuroncore.isa.operands import OPERANDS
from twintrack.neuroncore.isa.operators import ACTIVATIONS, OPERATORS, Operator
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.generation import Generation
from twintrack.neuroncore.memory.view import View

__all__ = [
    "activation_function",
    "agree",
    "command_in",
    "engine_in",
    "integers",
    "not_both_in_psum",
    "operator",
    "operator_in",
    "reachable",
    "scalar_operand",
    "tensors",
    "vector_operand",
]

_MOST_IN_SBUF = 64 * 1024
_MOST_IN_PSUM = 4 * 1024
_NO_ALU = frozenset({"average", "bypass"})
"""Operators of single instructions, which check for them by name."""


def tensors(ins: Instruction, *arguments: str) -> list[View]:
    """Operands by name, which must be there."""
    names = OPERANDS[ins.opcode]
    there = dict(zip((*names.outs, *names.ins), (*ins.outs, *ins.ins), strict=True))
    found = []
    for argument in arguments:
        view = there[argument]
        if view is None:
            raise broken(ins, f"a tensor for {argument}", "None", "pass an nl.ndarray or a slice of one")
        found.append(view)
    return found


def reachable(ins: Instruction, *views: View) -> None:
    """Tiles of numbers in SBUF or PSUM where the engine can address them, no longer than it can count.

    Vector and Scalar Engine: up to 64 Ki elements per partition in SBUF and 4 Ki in PSUM (architecture guide).
    """
    for view in views:
        region_in(ins, view, SBUF_PSUM, "SBUF or PSUM")
        start_partition(ins, view)
        number_type(ins, view)
        psum = view.storage.buffer.region is MemoryRegion.psum
        most = _MOST_IN_PSUM if psum else _MOST_IN_SBUF
        if view.free_size > most and ins.engine is not Engine.GPSIMD:
            raise broken(
                ins,
                f"at most {most} elements per partition in {'PSUM' if psum else 'SBUF'}",
                f"{view.free_size}",
                "split the operation over the free dimension",
                view,
            )


def agree(ins: Instruction, first: View, *others: View) -> None:
    """Tiles that are reachable and have equally many partitions and elements per partition."""
    reachable(ins, first, *others)
    partitions_agree(ins, first, *others)
    same_free_size(ins, first, *others)


def integers(ins: Instruction, op: str, *views: View) -> None:
    """Bitvec operators take and give integers."""
    for view in views:
        if not view.dtype.is_integer:
            raise broken(
                ins,
                f"an integer type in {name_of(ins, view)} for the bitvec operator {op}",
                view.dtype,
                f"allocate {name_of(ins, view)} as an integer type, or view its bits as integers"
                if is_output(ins, view)
                else "cast it first with nisa.tensor_copy, or view its bits as integers",
                view,
            )


def not_both_in_psum(ins: Instruction, first: View, second: View) -> None:
    """Of two tiles that are read together at most one lies in PSUM."""
    psum = MemoryRegion.psum
    if first.storage.buffer.region is psum and second.storage.buffer.region is psum:
        raise broken(
            ins,
            f"at most one of {name_of(ins, first)} and {name_of(ins, second)} in PSUM",
            f"both: {first.describe()} and {second.describe()}",
            "copy one to SBUF first",
        )


def engine_in(ins: Instruction, allowed: Container[Engine], named: str) -> None:
    """It runs on one of these engines."""
    if ins.engine not in allowed:
        raise broken(ins, named, f"{ins.engine} engine", "choose such an engine, or leave it unset")


def operator(ins: Instruction, generation: Generation, argument: str) -> Operator:
    """The operator of the arithmetic units that an argument names, which this generation has."""
    name = ins.attributes[argument]
    found = OPERATORS.get(name)
    if found is None or name in _NO_ALU:
        raise broken(
            ins, f"an ALU operator as {argument}", str(name), "choose one such as nl.add or nl.maximum"
        )
    if generation.number < found.first_generation:
        raise broken(
            ins,
            f"NeuronCore-v{found.first_generation} or newer for nl.{name}",
            generation.chip,
            "choose another operator",
        )
    return found


def operator_in(ins: Instruction, argument: str, allowed: tuple[str, ...]) -> None:
    """The argument names one of these operators."""
    name = ins.attributes[argument]
    if name not in allowed:
        wanted = ", ".join(f"nl.{one}" for one in allowed)
        raise broken(
            ins,
            f"{argument} among {wanted}" if len(allowed) > 1 else f"{argument}={wanted}",
            str(name),
            "choose one of them" if len(allowed) > 1 else "pass it",
        )


def activation_function(ins: Instruction) -> None:
    """``op`` is a function of the Scalar Engine."""
    name = ins.attributes["op"]
    if name not in ACTIVATIONS:
        raise broken(ins, "an activation function as op", str(name), "choose one such as nl.exp or nl.gelu")


def command_in(ins: Instruction, allowed: tuple[str, ...]) -> None:
    """``reduce_cmd`` is one that the instruction takes."""
    command = ins.attributes["reduce_cmd"]
    if command not in allowed:
        raise broken(ins, f"reduce_cmd among {', '.join(allowed)}", f"{command}", "choose one of them")


def vector_operand(
    ins: Instruction, argument: str, like: View, types: Container[str] | None, named: str
) -> None:
    """An operand that is a number, or a tile of one element for each partition of ``like``.

    Args:
        ins: the instruction.
        argument: the operand's name; where it is absent altogether nothing is checked.
        like: whose partitions it has.
        types: element types that the tile may have; any number where ``None``.
        named: those types, for the message.
    """
    view = ins.ins[OPERANDS[ins.opcode].ins.index(argument)]
    if view is None:
        return
    reachable(ins, view)
    one_per_partition(ins, view, like)
    if types is not None and view.dtype not in types:
        raise broken(
            ins, f"{argument} of type {named}", view.dtype, "cast it first with nisa.tensor_copy", view
        )


def scalar_operand(
    ins: Instruction, argument: str, op: Operator, like: View, types: Container[str] | None, named: str
) -> None:
    """The second operand of an operator that is applied with a number or a vector: there, or ``None`` or 0 if unary."""
    view = ins.ins[OPERANDS[ins.opcode].ins.index(argument)]
    number = ins.attributes[argument]
    if op.operands == 1:
        if view is not None or (number is not None and number != 0):
            raise broken(
                ins,
                f"{argument}=None or 0 for the unary operator nl.{op.name}",
                "a tensor" if view is not None else f"{number}",
                f"leave {argument} out",
            )
        return
    if view is None and number is None:
        raise broken(
            ins, f"{argument} for the operator nl.{op.name}", "None", "pass a number or a tile (P, 1)"
        )
    if op.category == "bitvec":
        if view is None and number != int(number):
            raise broken(ins, f"an integer {argument} for nl.{op.name}", f"{number}", "pass an int")
        if view is not None:
            integers(ins, op.name, view)
        types = None
    vector_operand(ins, argument, like, types, named)
