"""The operators of the IR: what each means, which shapes it takes, and what it counts as work.

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
from torch import Tensor
from torch.nn import functional

from twintrack.compiler.ir import TensorType
from twintrack.compiler.shapes import (
    Shape,
    broadcast_shape,
    concat_shape,
    gather_shape,
    matmul_shape,
    pad_shape,
    reduced_shape,
    same_shape,
    slice_shape,
)

__all__ = ["OPERATORS", "TORCH_DTYPE", "Kind", "OperatorSpec"]

Attributes = Mapping[str, Any]
Kind = Literal["arithmetic", "matmul", "reduction", "movement", "view", "control"]
TORCH_DTYPE: Mapping[str, torch.dtype] = MappingProxyType(
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


@dataclass(frozen=True, slots=True)
class OperatorSpec:
    """One operator of the IR."""

    name: str
    kind: Kind
    kernel: Callable[[Sequence[Tensor], Attributes], Tensor]
    shape: Callable[[Sequence[Shape], Attributes], Shape]
    """Shape of the result from the shapes of the operands; raises ``ValueError`` where they do not fit."""
    operands: tuple[int, ...]
    """Allowed numbers of operands; empty: any number from one up."""
    work: float = 0.0
    """FLOPs per element of the result, or per element of the first operand for reductions."""
    rounds_once: bool = False
    result: Literal["same", "float", "bool", "integer"] = "same"
    """What the declared element type may be: ``same`` kind as the operands, or a fixed kind."""

    def flops(self, operands: Sequence[TensorType], result: TensorType) -> int:
        """FLOPs of one execution."""
        if self.kind == "matmul":
            return 2 * result.numel * operands[0].shape[-1]
        per = operands[0].numel if self.kind == "reduction" else result.numel
        return int(self.work * per)


Kernel = Callable[[Sequence[Tensor], Attributes], Tensor]


def _scalar_or_tensor(function: Callable[[Any, Any], Any]) -> Kernel:
    """A binary operator over two tensors, or over one tensor and the attribute ``scalar`` on its ``side``."""

    def kernel(x: Sequence[Tensor], a: Attributes) -> Tensor:
        if len(x) == 2:
            result: Tensor = function(x[0], x[1])
        elif a["side"] == "right":
            result = function(x[0], a["scalar"])
        else:
            result = function(torch.as_tensor(a["scalar"], dtype=x[0].dtype), x[0])
        return result

    return kernel


def _unary(function: Callable[[Tensor], Tensor]) -> Kernel:
    return lambda x, _: function(x[0])


def _shift_right(x: Any, by: Any) -> Tensor:
    """Arithmetic shift, as ATen's; callers mask where they want a logical one."""
    result: Tensor = torch.bitwise_right_shift(x, by)
    return result


def _argmax(x: Sequence[Tensor], a: Attributes) -> Tensor:
    return torch.argmax(x[0], dim=a["axis"], keepdim=a["keep"])


def _take_rows(x: Sequence[Tensor], _: Attributes) -> Tensor:
    table, ids = x
    return functional.embedding(ids, table)


def _add_rows(x: Sequence[Tensor], a: Attributes) -> Tensor:
    """Sum rows of ``x[0]`` into a table of ``rows`` rows, in the order of the ids."""
    values, ids = x
    table = torch.zeros((a["rows"], values.shape[-1]), dtype=values.dtype)
    result: Tensor = table.index_add_(0, ids.reshape(-1), values.reshape(-1, values.shape[-1]))
    return result


def _scatter_add(x: Sequence[Tensor], a: Attributes) -> Tensor:
    values, index = x
    return torch.zeros(a["shape"], dtype=values.dtype).scatter_add_(a["axis"], index, values)


def _slice(x: Sequence[Tensor], a: Attributes) -> Tensor:
    index = [slice(None)] * x[0].dim()
    index[a["axis"]] = slice(a["start"], a["stop"], a["step"])
    return x[0][tuple(index)]


def _pad(x: Sequence[Tensor], a: Attributes) -> Tensor:
    """Zeros around ``x``: the gradient of a slice with step 1."""
    shape = pad_shape([tuple(x[0].shape)], a)
    out = torch.zeros(shape, dtype=x[0].dtype)
    out.narrow(a["axis"], a["before"], x[0].shape[a["axis"]]).copy_(x[0])
    return out


def _softmax_grad(x: Sequence[Tensor], a: Attributes) -> Tensor:
    grad, out = x
    return out * (grad - (grad * out).sum(a["axis"], keepdim=True))


def _log_softmax_grad(x: Sequence[Tensor], a: Attributes) -> Tensor:
    grad, out = x
    return torch.addcmul(grad, torch.exp(out), grad.sum(a["axis"], keepdim=True), value=-1.0)


def _silu_grad(x: Sequence[Tensor], _: Attributes) -> Tensor:
    result: Tensor = torch.ops.aten.silu_backward(x[0], x[1])
    return result


def _gelu_grad(x: Sequence[Tensor], a: Attributes) -> Tensor:
    result: Tensor = torch.ops.aten.gelu_backward(x[0], x[1], approximate=a["approximate"])
    return result


def _iota(_: Sequence[Tensor], a: Attributes) -> Tensor:
    result: Tensor = torch.arange(a["count"]) * a["step"] + a["start"]
    return result


def _constant(_: Sequence[Tensor], a: Attributes) -> Tensor:
    return torch.full(a["shape"], a["value"])


def _attribute_shape(key: str) -> Callable[[Sequence[Shape], Attributes], Shape]:
    return lambda _, a: tuple(a[key])


def _reshape_shape(shapes: Sequence[Shape], a: Attributes) -> Shape:
    if math.prod(shapes[0]) != math.prod(a["shape"]):
        raise ValueError(f"{math.prod(a['shape'])} elements expected, got {math.prod(shapes[0])}")
    return tuple(a["shape"])


def _transpose_shape(shapes: Sequence[Shape], a: Attributes) -> Shape:
    if sorted(a["order"]) != list(range(len(shapes[0]))):
        raise ValueError(f"order {a['order']} is no permutation of {len(shapes[0])} axes")
    return tuple(shapes[0][i] for i in a["order"])


def _expand_shape(shapes: Sequence[Shape], a: Attributes) -> Shape:
    target = tuple(a["shape"])
    if broadcast_shape([shapes[0], target], a) != target:
        raise ValueError(f"{shapes[0]} does not broadcast to {target}")
    return target


def _take_rows_shape(shapes: Sequence[Shape], _: Attributes) -> Shape:
    table, ids = shapes
    if len(table) != 2:
        raise ValueError(f"a table of 2 axes expected, got {len(table)}")
    return (*ids, table[1])


def _add_rows_shape(shapes: Sequence[Shape], a: Attributes) -> Shape:
    values, ids = shapes
    if values[:-1] != ids:
        raise ValueError(f"ids of shape {values[:-1]} expected, got {ids}")
    return (a["rows"], values[-1])


def _arithmetic() -> list[OperatorSpec]:
    unary: dict[str, tuple[Callable[[Tensor], Tensor], bool]] = {
        "neg": (torch.neg, True),
        "abs": (torch.abs, True),
        "relu": (torch.relu, True),
        "exp": (torch.exp, False),
        "log": (torch.log, False),
        "sqrt": (torch.sqrt, False),
        "rsqrt": (torch.rsqrt, False),
        "reciprocal": (torch.reciprocal, False),
        "sigmoid": (torch.sigmoid, False),
        "silu": (functional.silu, False),
        "tanh": (torch.tanh, False),
        "erf": (torch.erf, False),
        "sin": (torch.sin, False),
        "cos": (torch.cos, False),
    }
    binary: dict[str, tuple[Callable[[Any, Any], Any], bool]] = {
        "add": (torch.add, True),
        "sub": (torch.sub, True),
        "mul": (torch.mul, True),
        "div": (torch.div, True),
        "maximum": (torch.maximum, True),
        "minimum": (torch.minimum, True),
        "pow": (torch.pow, False),
    }
    integer: dict[str, Callable[[Any, Any], Any]] = {
        "bit_and": torch.bitwise_and,
        "bit_or": torch.bitwise_or,
        "bit_xor": torch.bitwise_xor,
        "shift_left": torch.bitwise_left_shift,
        "shift_right": _shift_right,
        "remainder": torch.remainder,
    }
    compare: dict[str, Callable[[Any, Any], Any]] = {
        "eq": torch.eq,
        "ne": torch.ne,
        "lt": torch.lt,
        "le": torch.le,
        "gt": torch.gt,
        "ge": torch.ge,
    }
    specs = [
        OperatorSpec(n, "arithmetic", _unary(f), same_shape, (1,), 1, once) for n, (f, once) in unary.items()
    ]
    specs += [
        OperatorSpec(n, "arithmetic", _scalar_or_tensor(f), broadcast_shape, (1, 2), 1, once)
        for n, (f, once) in binary.items()
    ]
    specs += [
        OperatorSpec(n, "arithmetic", _scalar_or_tensor(f), broadcast_shape, (1, 2), 1)
        for n, f in integer.items()
    ]
    specs += [
        OperatorSpec(n, "arithmetic", _scalar_or_tensor(f), broadcast_shape, (1, 2), 1, True, "bool")
        for n, f in compare.items()
    ]
    return specs


def _composite() -> list[OperatorSpec]:
    return [
        OperatorSpec("not", "arithmetic", _unary(torch.logical_not), same_shape, (1,), 1, True, "bool"),
        OperatorSpec(
            "gelu",
            "arithmetic",
            lambda x, a: functional.gelu(x[0], approximate=a["approximate"]),
            same_shape,
            (1,),
            1,
        ),
        OperatorSpec("silu_grad", "arithmetic", _silu_grad, same_shape, (2,), 1),
        OperatorSpec("gelu_grad", "arithmetic", _gelu_grad, same_shape, (2,), 1),
        OperatorSpec(
            "select", "movement", lambda x, _: torch.where(x[0], x[1], x[2]), broadcast_shape, (3,), 0, True
        ),
        OperatorSpec(
            "softmax", "arithmetic", lambda x, a: torch.softmax(x[0], a["axis"]), same_shape, (1,), 4
        ),
        OperatorSpec("softmax_grad", "arithmetic", _softmax_grad, same_shape, (2,), 4),
        OperatorSpec(
            "log_softmax", "arithmetic", lambda x, a: torch.log_softmax(x[0], a["axis"]), same_shape, (1,), 4
        ),
        OperatorSpec("log_softmax_grad", "arithmetic", _log_softmax_grad, same_shape, (2,), 4),
        OperatorSpec(
            "matmul", "matmul", lambda x, _: torch.matmul(x[0], x[1]), matmul_shape, (2,), result="float"
        ),
    ]


def _reductions() -> list[OperatorSpec]:
    def over(function: Callable[..., Tensor]) -> Kernel:
        return lambda x, a: function(x[0], dim=a["axes"], keepdim=a["keep"])

    return [
        OperatorSpec("sum", "reduction", over(torch.sum), reduced_shape, (1,), 1),
        OperatorSpec("mean", "reduction", over(torch.mean), reduced_shape, (1,), 1),
        OperatorSpec("amax", "reduction", over(torch.amax), reduced_shape, (1,), 1),
        OperatorSpec("amin", "reduction", over(torch.amin), reduced_shape, (1,), 1),
        OperatorSpec(
            "argmax",
            "reduction",
            _argmax,
            lambda s, a: reduced_shape(s, {"axes": (a["axis"],), "keep": a["keep"]}),
            (1,),
            1,
            result="integer",
        ),
    ]


def _movement() -> list[OperatorSpec]:
    return [
        OperatorSpec(
            "reshape", "view", lambda x, a: x[0].reshape(a["shape"]), _reshape_shape, (1,), rounds_once=True
        ),
        OperatorSpec(
            "transpose",
            "view",
            lambda x, a: x[0].permute(a["order"]),
            _transpose_shape,
            (1,),
            rounds_once=True,
        ),
        OperatorSpec(
            "broadcast", "view", lambda x, a: x[0].expand(a["shape"]), _expand_shape, (1,), rounds_once=True
        ),
        OperatorSpec("slice", "view", _slice, slice_shape, (1,), rounds_once=True),
        OperatorSpec(
            "concat",
            "movement",
            lambda x, a: torch.cat(list(x), a["axis"]),
            concat_shape,
            (),
            rounds_once=True,
        ),
        OperatorSpec("pad", "movement", _pad, pad_shape, (1,), rounds_once=True),
        OperatorSpec("cast", "movement", lambda x, _: x[0], same_shape, (1,)),
        OperatorSpec("take_rows", "movement", _take_rows, _take_rows_shape, (2,), rounds_once=True),
        OperatorSpec("add_rows", "arithmetic", _add_rows, _add_rows_shape, (2,), 1),
        OperatorSpec(
            "gather",
            "movement",
            lambda x, a: torch.gather(x[0], a["axis"], x[1]),
            gather_shape,
            (2,),
            rounds_once=True,
        ),
        OperatorSpec("scatter_add", "arithmetic", _scatter_add, _attribute_shape("shape"), (2,), 1),
        OperatorSpec("iota", "movement", _iota, lambda _, a: (a["count"],), (0,)),
        OperatorSpec("constant", "movement", _constant, _attribute_shape("shape"), (0,)),
    ]


OPERATORS: Mapping[str, OperatorSpec] = MappingProxyType(
    {spec.name: spec for spec in (*_arithmetic(), *_composite(), *_reductions(), *_movement())}
)
"""Every operator but ``call`` (of another function) and ``host`` (outside Trainium's rules), which the executor does."""
