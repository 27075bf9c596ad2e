"""The graph IR: a program is a few typed functions of operators, in single assignment, that lives on disk as JSON.

Value ``i`` of a function has type ``types[i]``. Every operator has a source line: the model line that caused it.
The operators and their meaning are in ``twintrack.compiler.operators``; ``twintrack.compiler.verify`` checks a
program against them. ``print(program)`` shows it as text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict, PlainSerializer, TypeAdapter, ValidationError

from twintrack.errors import InvalidProgram

__all__ = [
    "DTYPE_BYTES",
    "FORMAT",
    "Attribute",
    "DType",
    "Function",
    "Operator",
    "Program",
    "TensorType",
    "Tree",
]

FORMAT = 1
"""Version of the JSON form; part of every cache key."""

DType = Literal["f32", "bf16", "f16", "i64", "i32", "u8", "bool"]
DTYPE_BYTES: Mapping[str, int] = {"f32": 4, "bf16": 2, "f16": 2, "i64": 8, "i32": 4, "u8": 1, "bool": 1}

Attribute = int | float | bool | str | tuple[int, ...]
_NON_FINITE: Mapping[str, float] = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_STRICT = ConfigDict(strict=True, extra="forbid")


def _write_attributes(attributes: Mapping[str, Attribute]) -> dict[str, Any]:
    """JSON has no infinities and no NaN: they are written as ``{"float": "-inf"}``."""
    return {
        key: {"float": str(value)} if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in attributes.items()
    }


def _read_attributes(attributes: Any) -> Any:
    """Undo ``_write_attributes``, and lists for tuples; what has another form is left for the type to refuse."""
    if not isinstance(attributes, dict):
        return attributes
    return {key: _read_attribute(value) for key, value in attributes.items()}


def _read_attribute(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, dict) and set(value) == {"float"} and value["float"] in tuple(_NON_FINITE):
        return _NON_FINITE[value["float"]]
    return value


Attributes = Annotated[
    dict[str, Attribute], PlainSerializer(_write_attributes), BeforeValidator(_read_attributes)
]
Tree = Any
"""Nested dicts and lists whose leaves are numbers: which flat result stands where."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type and shape of a value."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    dtype: DType
    shape: tuple[int, ...]

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of a dense tensor of this type."""
        return self.numel * DTYPE_BYTES[self.dtype]

    @property
    def is_float(self) -> bool:
        """Whether elements are floating-point numbers."""
        return self.dtype in ("f32", "bf16", "f16")

    def __str__(self) -> str:
        return f"{self.dtype}[{'x'.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator: reads values, defines new ones."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: Attributes
    line: str
    """Where in the model it comes from, such as ``transformers/models/llama/modeling_llama.py:254``."""


@dataclass(frozen=True, slots=True)
class Function:
    """Operators in order; the first values are the inputs."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    name: str
    types: tuple[TensorType, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    body: tuple[Operator, ...]

    def __str__(self) -> str:
        def show(value: int) -> str:
            return f"%{value}: {self.types[value]}"

        head = f"function {self.name}({', '.join(map(show, self.inputs))}):"
        lines = [head]
        for op in self.body:
            attributes = ", ".join(f"{k}={v!r}" for k, v in op.attributes.items())
            inputs = ", ".join(f"%{i}" for i in op.inputs)
            text = f"  {', '.join(map(show, op.outputs))} = {op.name}({inputs})"
            lines.append(f"{text} {{{attributes}}}  # {op.line}" if attributes else f"{text}  # {op.line}")
        lines.append(f"  return {', '.join(f'%{i}' for i in self.outputs)}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Program:
    """Functions that call each other, and how the entry's flat inputs and outputs map to the caller's structure."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    name: str
    entry: str
    functions: dict[str, Function]
    input_paths: tuple[str, ...]
    """One path per input of the entry, such as ``0/model.embed_tokens.weight``."""
    result: Tree
    """Structure of the result; leaves index the entry's outputs."""

    @property
    def main(self) -> Function:
        """The entry function."""
        return self.functions[self.entry]

    def to_json(self) -> bytes:
        """The program as JSON (UTF-8)."""
        return _ADAPTER.dump_json(_Stored(format=FORMAT, program=self))

    @classmethod
    def from_json(cls, data: bytes) -> Program:
        """Read a program; its rules are checked by ``verify``, not here.

        Raises:
            InvalidProgram: if the bytes are not a program of this format.
        """
        try:
            stored = _ADAPTER.validate_json(data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise InvalidProgram(
                "a program as JSON",
                found=f"{first['msg']} at {place}",
                where="program",
                remedy="capture it again",
            ) from error
        if stored.format != FORMAT:
            raise InvalidProgram(
                f"format {FORMAT}",
                found=f"format {stored.format}",
                where="program",
                remedy="capture it again",
            )
        return stored.program

    def __str__(self) -> str:
        return "\n\n".join(str(function) for function in self.functions.values())


@dataclass(frozen=True, slots=True)
class _Stored:
    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    format: int
    program: Program


_ADAPTER: TypeAdapter[_Stored] = TypeAdapter(_Stored)
