"""The operators of the IR: what each takes and gives, and what it counts as work.

The meaning is a kernel over PyTorch CPU tensors. A kernel gets floating-point operands widened to float32 (exact)
and computes in float32 with float32 accumulation; the executor then rounds its result **once** to the operator's
declared type. Integers and booleans are exact. Operators marked ``rounds_once`` give the same bits when PyTorch's own
kernel runs on bfloat16 operands (a test holds that for every one of them), so nearest-even execution may skip the
widening.

FLOPs: matmul 2·M·N·K; other arithmetic 1 per output element (reductions: per input element; softmax and its
gradient 4: subtract, exponential, sum, divide); moving and viewing 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import torch

from twintrack.compiler.ir import DType, TensorType
from twintrack.compiler.kernels import Kernel, kernels
from twintrack.compiler.shapes import (
    Shape,
    add_rows_shape,
    axis_shape,
    broadcast_shape,
    concat_shape,
    constant_shape,
    expand_shape,
    extreme_shape,
    gather_shape,
    iota_shape,
    matmul_shape,
    pad_shape,
    reduced_shape,
    reshape_shape,
    same_shape,
    scatter_shape,
    slice_shape,
    take_rows_shape,
    transpose_shape,
)

__all__ = [
    "ANY",
    "BOOL",
    "FLOAT",
    "INDEX",
    "INTEGER",
    "OPERATORS",
    "TORCH_DTYPE",
    "Dtypes",
    "Kind",
    "OperatorSpec",
    "fits",
    "kind_of",
]

Kind = Literal["arithmetic", "matmul", "reduction", "movement", "view"]
Dtypes = frozenset[str]

FLOAT: Dtypes = frozenset({"f32", "bf16", "f16"})
INTEGER: Dtypes = frozenset({"i64", "i32", "u8"})
BOOL: Dtypes = frozenset({"bool"})
INDEX: Dtypes = frozenset({"i64", "i32"})
NUMBER: Dtypes = FLOAT | INTEGER
ANY: Dtypes = NUMBER | BOOL

TORCH_DTYPE: Mapping[DType, torch.dtype] = MappingProxyType(
    {
        "f32": torch.float32,
        "bf16": torch.bfloat16,
        "f16": torch.float16,
        "i64": torch.int64,
        "i32": torch.int32,
        "u8": torch.uint8,
        "bool": torch.bool,
    }
)

Result = Literal["kind", "number", "float", "bool", "integer", "same", "any"]
"""What the declared element type may be.

``kind``: the widest kind among data operands and scalar, in the order bool, integer, float; ``number``: that, or
integer for bools; ``float``, ``bool``, ``integer``: of this kind; ``same``: exactly the type of all data operands;
``any``: whatever is declared.
"""


@dataclass(frozen=True, slots=True)
class OperatorSpec:
    """One operator of the IR."""

    name: str
    kind: Kind
    kernel: Kernel
    shape: Callable[[Sequence[Shape], Mapping[str, Any]], Shape]
    """Shape of the result from the shapes of the operands; raises ``ValueError`` where they do not fit."""
    operands: tuple[int, ...]
    """Allowed numbers of operands; empty: any number from one up. One of ``(1, 2)`` comes with ``scalar`` and
    ``side``."""
    takes: tuple[Dtypes, ...]
    """Element types that each operand may have; the last goes for all further ones, and for the scalar."""
    result: Result
    attributes: tuple[str, ...] = ()
    """Names of its attributes; every one is required and none besides is allowed."""
    work: float = 0.0
    """FLOPs per element of the result, or per element of the first operand for reductions."""
    rounds_once: bool = False
    selectors: tuple[int, ...] = ()
    """Operands that choose (conditions, indices) and so have no say in the type of the result."""
    reads_part: bool = False
    """Reads no more of its first operand than it gives."""

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        """FLOPs of one execution."""
        if self.kind == "matmul":
            return 2 * result.numel * operands[0].shape[-1]
        per = operands[0].numel if self.kind == "reduction" else result.numel
        return int(self.work * per)


def _arithmetic(table: Mapping[str, Kernel]) -> list[OperatorSpec]:
    def unary(names: str, takes: Dtypes, result: Result, *, once: bool = False) -> list[OperatorSpec]:
        return [
            OperatorSpec(n, "arithmetic", table[n], same_shape, (1,), (takes,), result, (), 1, once)
            for n in names.split()
        ]

    def binary(names: str, takes: Dtypes, result: Result, *, once: bool = False) -> list[OperatorSpec]:
        return [
            OperatorSpec(n, "arithmetic", table[n], broadcast_shape, (1, 2), (takes,), result, (), 1, once)
            for n in names.split()
        ]

    return [
        *unary("neg abs relu", NUMBER, "kind", once=True),
        *unary("exp log sqrt rsqrt reciprocal sigmoid tanh erf sin cos", ANY, "float"),
        *unary("silu", FLOAT, "float"),
        *unary("not", ANY, "bool", once=True),
        *binary("add mul", ANY, "kind", once=True),
        *binary(
            "maximum minimum", ANY, "kind"
        ),  # of two zeros PyTorch's vector and scalar loops choose differently
        *binary("sub", NUMBER, "kind", once=True),
        *binary("div", ANY, "float", once=True),
        *binary("pow remainder", NUMBER, "kind"),
        *binary("bit_and bit_or bit_xor", INTEGER | BOOL, "kind"),
        *binary("shift_left shift_right", INTEGER, "kind"),
        *binary("eq ne lt le gt ge", ANY, "bool", once=True),
    ]


def _composite(table: Mapping[str, Kernel]) -> list[OperatorSpec]:
    def activation(
        name: str,
        operands: int,
        work: float,
        *attributes: str,
        shape: Callable[..., Shape] = same_shape,
    ) -> OperatorSpec:
        return OperatorSpec(
            name, "arithmetic", table[name], shape, (operands,), (FLOAT,), "float", attributes, work
        )

    return [
        activation("gelu", 1, 1, "approximate"),
        activation("silu_grad", 2, 1),
        activation("gelu_grad", 2, 1, "approximate"),
        activation("softmax", 1, 4, "axis", shape=axis_shape),
        activation("softmax_grad", 2, 4, "axis", shape=axis_shape),
        activation("log_softmax", 1, 4, "axis", shape=axis_shape),
        activation("log_softmax_grad", 2, 4, "axis", shape=axis_shape),
        OperatorSpec("matmul", "matmul", table["matmul"], matmul_shape, (2,), (FLOAT,), "float"),
    ]


def _reductions(table: Mapping[str, Kernel]) -> list[OperatorSpec]:
    def over(name: str, takes: Dtypes, result: Result, shape: Callable[..., Shape]) -> OperatorSpec:
        return OperatorSpec(
            name, "reduction", table[name], shape, (1,), (takes,), result, ("axes", "keep"), 1
        )

    def first_axis(shapes: Sequence[Shape], a: Mapping[str, Any]) -> Shape:
        return extreme_shape(shapes, {"axes": (a["axis"],), "keep": a["keep"]})

    return [
        over("sum", ANY, "number", reduced_shape),
        over("mean", FLOAT, "float", reduced_shape),
        over("amax", ANY, "kind", extreme_shape),
        over("amin", ANY, "kind", extreme_shape),
        OperatorSpec(
            "argmax",
            "reduction",
            table["argmax"],
            first_axis,
            (1,),
            (NUMBER,),
            "integer",
            ("axis", "keep"),
            1,
        ),
        OperatorSpec(
            "add_rows",
            "reduction",
            table["add_rows"],
            add_rows_shape,
            (2,),
            (NUMBER, INDEX),
            "kind",
            ("rows",),
            1,
            selectors=(1,),
        ),
        OperatorSpec(
            "scatter_add",
            "reduction",
            table["scatter_add"],
            scatter_shape,
            (2,),
            (NUMBER, INDEX),
            "kind",
            ("axis", "shape"),
            1,
            selectors=(1,),
        ),
    ]


def _movement(table: Mapping[str, Kernel]) -> list[OperatorSpec]:
    def moves(
        name: str,
        shape: Callable[..., Shape],
        *attributes: str,
        kind: Kind = "movement",
        operands: tuple[int, ...] = (1,),
        takes: tuple[Dtypes, ...] = (ANY,),
        selectors: tuple[int, ...] = (),
        reads_part: bool = False,
    ) -> OperatorSpec:
        return OperatorSpec(
            name,
            kind,
            table[name],
            shape,
            operands,
            takes,
            "same",
            attributes,
            rounds_once=True,
            selectors=selectors,
            reads_part=reads_part,
        )

    by_index: dict[str, Any] = {
        "operands": (2,),
        "takes": (ANY, INDEX),
        "selectors": (1,),
        "reads_part": True,
    }
    return [
        moves("reshape", reshape_shape, "shape", kind="view"),
        moves("transpose", transpose_shape, "order", kind="view"),
        moves("broadcast", expand_shape, "shape", kind="view"),
        moves("slice", slice_shape, "axis", "start", "stop", "step", kind="view"),
        moves("concat", concat_shape, "axis", operands=()),
        moves("pad", pad_shape, "axis", "before", "after"),
        moves("select", broadcast_shape, operands=(3,), takes=(BOOL, ANY), selectors=(0,)),
        moves("take_rows", take_rows_shape, **by_index),
        moves("gather", gather_shape, "axis", **by_index),
        OperatorSpec("cast", "movement", table["cast"], same_shape, (1,), (ANY,), "any"),
        OperatorSpec(
            "iota", "movement", table["iota"], iota_shape, (0,), (), "any", ("count", "start", "step")
        ),
        OperatorSpec(
            "constant", "movement", table["constant"], constant_shape, (0,), (), "any", ("shape", "value")
        ),
    ]


def _table() -> dict[str, OperatorSpec]:
    table = kernels()
    specs = [*_arithmetic(table), *_composite(table), *_reductions(table), *_movement(table)]
    return {spec.name: spec for spec in specs}


OPERATORS: Mapping[str, OperatorSpec] = MappingProxyType(_table())
"""Every operator but ``call`` (another function) and ``host`` (outside Trainium's rules), which the executor does."""


def kind_of(value: float | bool | str) -> Dtypes:
    """Kind of an element type, or of a number: ``BOOL``, ``INTEGER`` or ``FLOAT``."""
    if isinstance(value, bool) or value == "bool":
        return BOOL
    return INTEGER if isinstance(value, int) or value in INTEGER else FLOAT


def fits(value: float | bool, dtype: str) -> bool:
    """Whether a number can stand beside elements of this type, or be stored as one, without overflow."""
    if isinstance(value, int):
        lowest, highest = {"u8": (0, 255), "i32": (-(2**31), 2**31 - 1)}.get(dtype, (-(2**63), 2**63 - 1))
        return lowest <= value <= highest
    return not math.isfinite(value) or abs(value) <= torch.finfo(torch.float32).max
