"""Grows one IR function while its operators are being observed, and cuts it to what is used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from twintrack.compiler.ir import Attribute, DType, Function, Operator, TensorType
from twintrack.errors import CompileError

__all__ = ["Builder", "extract", "type_of"]

_DTYPES: dict[torch.dtype, DType] = {
    torch.float32: "f32",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.uint8: "u8",
    torch.bool: "bool",
}


def type_of(tensor: Tensor, line: str) -> TensorType:
    """IR type of a tensor.

    Raises:
        CompileError: if the IR has no such element type.
    """
    if tensor.dtype not in _DTYPES:
        raise CompileError(
            f"an element type among {', '.join(_DTYPES.values())}",
            found=str(tensor.dtype).removeprefix("torch."),
            where=line,
            remedy="cast it in the model, or choose another precision",
        )
    return TensorType(_DTYPES[tensor.dtype], tuple(tensor.shape))


class Builder:
    """An IR function under construction; tensors seen during capture are known by identity."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.types: list[TensorType] = []
        self.inputs: list[int] = []
        self.body: list[Operator] = []
        self._values: dict[int, tuple[Tensor, int]] = {}
        self._makers: dict[int, Operator] = {}

    def input(self, tensor: Tensor, line: str) -> int:
        """Make the tensor an input."""
        value = self._new(type_of(tensor, line))
        self.inputs.append(value)
        self.bind(tensor, value)
        return value

    def bind(self, tensor: Tensor, value: int) -> None:
        """From now on the tensor means this value; the tensor is kept alive so that its identity stays its own."""
        self._values[id(tensor)] = (tensor, value)

    def is_input(self, tensor: Tensor) -> bool:
        """Whether the tensor is an input, or another name of one."""
        known = self._values.get(id(tensor))
        return known is not None and known[1] in self.inputs

    def value(self, tensor: Tensor, line: str) -> int:
        """The value of a tensor.

        Raises:
            CompileError: if it entered from outside, so that a stored program would lack it.
        """
        known = self._values.get(id(tensor))
        if known is None:
            raise CompileError(
                "every tensor passed in as an argument",
                found=f"a tensor of shape {tuple(tensor.shape)} from outside",
                where=line,
                remedy="make it a parameter, buffer or argument of the model",
            )
        return known[1]

    def aliases(self, tensor: Tensor) -> bool:
        """Whether another known tensor shares memory with this one."""
        storage = tensor.untyped_storage()._cdata
        return any(
            other is not tensor and other.untyped_storage()._cdata == storage
            for other, _ in self._values.values()
        )

    def emit(
        self,
        name: str,
        inputs: Sequence[int],
        result: TensorType,
        line: str,
        **attributes: Attribute,
    ) -> int:
        """Append an operator with one result."""
        return self.emit_many(name, inputs, [result], line, **attributes)[0]

    def emit_many(
        self,
        name: str,
        inputs: Sequence[int],
        results: Sequence[TensorType],
        line: str,
        **attributes: Attribute,
    ) -> list[int]:
        """Append an operator."""
        outputs = [self._new(result) for result in results]
        op = Operator(name, tuple(inputs), tuple(outputs), dict(attributes), line)
        self.body.append(op)
        self._makers.update(dict.fromkeys(outputs, op))
        return outputs

    def is_zero(self, value: int) -> bool:
        """Whether the value is a constant of zeros."""
        maker = self._makers.get(value)
        return maker is not None and maker.name == "constant" and maker.attributes["value"] == 0

    def finish(self, outputs: Sequence[int]) -> Function:
        """The function, without operators that no output needs."""
        return extract(self.name, self.types, self.inputs, outputs, self.body)

    def _new(self, kind: TensorType) -> int:
        self.types.append(kind)
        return len(self.types) - 1


def extract(
    name: str,
    types: Sequence[TensorType],
    inputs: Sequence[int],
    outputs: Sequence[int],
    body: Iterable[Operator],
) -> Function:
    """A function of its own from some operators of a larger one: dead operators go, values are numbered anew."""
    needed, kept = set(outputs), []
    for op in reversed(list(body)):
        if needed & set(op.outputs):
            kept.append(op)
            needed |= set(op.inputs)
    kept.reverse()
    order = [*inputs, *(value for op in kept for value in op.outputs)]
    number = {value: index for index, value in enumerate(order)}
    return Function(
        name,
        tuple(types[value] for value in order),
        tuple(range(len(inputs))),
        tuple(number[value] for value in outputs),
        tuple(
            Operator(
                op.name,
                tuple(number[v] for v in op.inputs),
                tuple(number[v] for v in op.outputs),
                op.attributes,
                op.line,
            )
            for op in kept
        ),
    )
