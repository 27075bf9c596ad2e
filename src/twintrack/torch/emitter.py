"""What every converter uses: the observed call, the builder it writes to, constants, axes counted from the front."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from twintrack.compiler.ir import Attribute, TensorType
from twintrack.torch.builder import Builder, type_of

__all__ = ["Converter", "Emitter", "axes_of", "axis_of", "constant_of", "overloads", "reshaped"]


class Emitter:
    """One observed call: its arguments, its result as PyTorch sees it, and where operators go."""

    def __init__(
        self, builder: Builder, line: str, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any
    ) -> None:
        self.builder, self.line = builder, line
        self.args, self.kwargs, self.out = args, kwargs, out

    def arg(self, index: int, name: str = "", default: Any = None) -> Any:
        """An argument by position or keyword."""
        return self.args[index] if index < len(self.args) else self.kwargs.get(name, default)

    def value(self, tensor: Tensor) -> int:
        """The value of an operand."""
        return self.builder.value(tensor, self.line)

    @property
    def type(self) -> TensorType:
        """Type of the result."""
        return type_of(self.out, self.line)

    def emit(
        self, name: str, inputs: Sequence[int], result: TensorType | None = None, **attributes: Attribute
    ) -> int:
        """Append an operator; its type is the result's unless given."""
        return self.builder.emit(name, inputs, result or self.type, self.line, **attributes)

    def cast(self, value: int, dtype: str) -> int:
        """The value as another element type; itself if it has it already."""
        kind = self.builder.types[value]
        if kind.dtype == dtype:
            return value
        return self.emit("cast", [value], TensorType(dtype, kind.shape))  # type: ignore[arg-type]


Converter = Callable[[Emitter], Any]
"""Writes one observed call; returns the value, or the values, of its result."""


def constant_of(e: Emitter, value: float | bool, kind: TensorType) -> int:
    """A tensor filled with one number, as its element type holds it."""
    number = value if kind.is_float else bool(value) if kind.dtype == "bool" else int(value)
    return e.emit("constant", [], kind, value=number, shape=kind.shape)


def axis_of(axis: int, rank: int) -> int:
    """Number of an axis, from 0; a tensor without axes counts as having one."""
    return axis % rank if rank else 0


def axes_of(axes: Sequence[int] | int | None, rank: int) -> tuple[int, ...]:
    """Numbers of axes in order, from 0; none or an empty list are all of them."""
    if axes is None or axes == []:
        return tuple(range(rank))
    return tuple(sorted(axis_of(a, rank) for a in ([axes] if isinstance(axes, int) else axes)))


def reshaped(e: Emitter, value: int, shape: tuple[int, ...]) -> int:
    """The value in another shape; itself if it has it already."""
    kind = e.builder.types[value]
    return (
        value
        if kind.shape == shape
        else e.emit("reshape", [value], TensorType(kind.dtype, shape), shape=shape)
    )


def overloads(names: str, converter: Converter) -> dict[Any, Converter]:
    """The converter for every overload of these operators that maps tensors to a tensor."""
    found: dict[Any, Converter] = {}
    for name in names.split():
        packet = getattr(torch.ops.aten, name, None)
        for overload in packet.overloads() if packet is not None else ():
            function = getattr(packet, overload)
            takes = [str(argument.real_type) for argument in function._schema.arguments]
            if "Tensor" in takes and not function._schema.is_mutable and "ScalarType" not in takes:
                found[function] = converter
    return found
