"""Executes programs under Trainium's number rules.

Floating-point operands are widened to float32, which is exact; an operator computes in float32 with float32
accumulation; its result is rounded once to the declared type. A float32 result is not rounded at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from twintrack.compiler.hostcall import HOST_NAME, host_kernel
from twintrack.compiler.ir import Function, Operator, Program, TensorType
from twintrack.compiler.operators import FLOAT, OPERATORS, TORCH_DTYPE, OperatorSpec
from twintrack.numerics.rounding import NearestEven, Rounding

__all__ = ["Executor"]

_CALL_STRIDE = 1 << 32
"""Room for the operators of one execution in the counter that feeds stochastic rounding."""


@dataclass(slots=True)
class _Counter:
    """Numbers the operators of one execution, so that stochastic rounding never draws the same bits twice."""

    value: int

    def next(self) -> int:
        self.value += 1
        return self.value


_Instruction = Callable[[list[Tensor | None], _Counter], None]
_Compute = Callable[[list[Tensor], _Counter], Sequence[Tensor]]


class Executor:
    """A program made ready to run on CPU tensors.

    Args:
        program: verified.
        rounding: how float32 results become narrower types.
    """

    def __init__(self, program: Program, rounding: Rounding) -> None:
        self._rounding = rounding
        self._types = [TORCH_DTYPE[program.main.types[v].dtype] for v in program.main.inputs]
        self._functions: dict[str, list[_Instruction]] = {}
        self._program = program
        for name in program.functions:
            self._prepare(name)

    def run(self, inputs: Sequence[Tensor], *, invocation: int) -> list[Tensor]:
        """Outputs of the entry function, for inputs of the program's own types and shapes.

        Args:
            inputs: one tensor per input.
            invocation: number of this execution in the run; stochastic rounding depends on it and the seed alone.

        Raises:
            ValueError: if an input has another type or shape than the program's.
        """
        main = self._program.main
        for value, tensor, dtype in zip(main.inputs, inputs, self._types, strict=True):
            if tensor.dtype != dtype or tuple(tensor.shape) != main.types[value].shape:
                raise ValueError(f"{main.types[value]} expected, got {tensor.dtype} {tuple(tensor.shape)}")
        with torch.no_grad():
            return self._call(main, inputs, _Counter(invocation * _CALL_STRIDE))

    def _call(self, function: Function, inputs: Sequence[Tensor], counter: _Counter) -> list[Tensor]:
        values: list[Tensor | None] = [None] * len(function.types)
        for value, tensor in zip(function.inputs, inputs, strict=True):
            values[value] = tensor
        for instruction in self._functions[function.name]:
            instruction(values, counter)
        return [_present(values[value]) for value in function.outputs]

    def _prepare(self, name: str) -> None:
        function = self._program.functions[name]
        last: dict[int, int] = {}
        for index, op in enumerate(function.body):
            last.update(dict.fromkeys((*op.inputs, *op.outputs), index))
        kept = {*function.inputs, *function.outputs}
        instructions: list[_Instruction] = []
        for index, op in enumerate(function.body):
            free = tuple({v for v in (*op.inputs, *op.outputs) if last[v] == index} - kept)
            instructions.append(self._instruction(op, function.types, free))
        self._functions[name] = instructions

    def _instruction(
        self, op: Operator, types: tuple[TensorType, ...], free: tuple[int, ...]
    ) -> _Instruction:
        if op.name == "call":
            compute = self._calling(self._program.functions[str(op.attributes["function"])])
        elif op.name == HOST_NAME:
            compute = _on_host(op)
        else:
            compute = self._operator(op, types)
        inputs, outputs = op.inputs, op.outputs

        def instruction(values: list[Tensor | None], counter: _Counter) -> None:
            results = compute([_present(values[v]) for v in inputs], counter)
            for value, result in zip(outputs, results, strict=True):
                values[value] = result
            for value in free:
                values[value] = None

        return instruction

    def _calling(self, callee: Function) -> _Compute:
        return lambda operands, counter: self._call(callee, operands, counter)

    def _operator(self, op: Operator, types: tuple[TensorType, ...]) -> _Compute:
        spec, attributes = OPERATORS[op.name], op.attributes
        declared = types[op.outputs[0]]
        dtype, rounding = TORCH_DTYPE[declared.dtype], self._rounding
        operands_types = [types[v].dtype for v in op.inputs]
        if "scalar" not in attributes and _runs_directly(spec, operands_types, declared, rounding):
            return lambda operands, _: (spec.kernel(operands, attributes),)
        widen = bool(FLOAT.intersection(operands_types) - {"f32"})

        def compute(operands: list[Tensor], counter: _Counter) -> Sequence[Tensor]:
            if widen:
                operands = [x.float() if x.is_floating_point() else x for x in operands]
            result = spec.kernel(operands, attributes)
            if not declared.is_float:
                return (result if result.dtype == dtype else result.to(dtype),)
            if result.dtype != torch.float32:
                result = result.float()
            return (rounding.to(result, dtype, counter.next()) if dtype != torch.float32 else result,)

        return compute


def _on_host(op: Operator) -> _Compute:
    kernel = host_kernel(op)
    return lambda operands, _: kernel(operands)


def _runs_directly(
    spec: OperatorSpec, operands: Sequence[str], declared: TensorType, rounding: Rounding
) -> bool:
    """Whether PyTorch's kernel on operands as they are gives the bits that the rules ask for.

    Beside floats an integer would become a bfloat16 before the operator, and not a float32.
    """
    if not spec.rounds_once:
        return False
    if spec.result == "same":
        return True
    if spec.result == "bool":
        return FLOAT.issuperset(operands) or FLOAT.isdisjoint(operands)
    return {declared.dtype} == set(operands) and isinstance(rounding, NearestEven)


def _present(value: Tensor | None) -> Tensor:
    if value is None:
        raise AssertionError("a verified program never reads a value that is gone")
    return value
