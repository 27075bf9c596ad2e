"""How ATen operators become operators of the IR: one small function per family, dispatched by a table.

A converter gets an ``Emitter`` and the observed call, and returns the value (or values) of its result. What has no
converter is decomposed by PyTorch's own core ATen decompositions; what then still has none is not supported.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from twintrack.compiler.ir import TensorType
from twintrack.torch.emitter import Converter, Emitter, axes_of, axis_of, overloads
from twintrack.torch.movement import MOVEMENT

__all__ = ["CONVERTERS"]

aten = torch.ops.aten


def _unary(name: str) -> Converter:
    return lambda e: e.emit(name, [e.value(e.args[0])])


def _binary(name: str) -> Converter:
    def convert(e: Emitter) -> int:
        left, right = e.args[0], e.args[1]
        if e.kwargs.get("rounding_mode") is not None:
            raise NotImplementedError("rounding_mode")
        alpha = e.arg(2, "alpha", 1)
        if alpha != 1:
            return _scaled(e, name, left, right, alpha)
        if isinstance(left, Tensor) and isinstance(right, Tensor):
            return e.emit(name, [e.value(left), e.value(right)])
        if isinstance(left, Tensor):
            return e.emit(name, [e.value(left)], scalar=right, side="right")
        return e.emit(name, [e.value(right)], scalar=left, side="left")

    return convert


def _scaled(e: Emitter, name: str, left: Any, right: Any, alpha: float) -> int:
    """``left`` plus or minus ``alpha`` times ``right``; the product stays in float32, so one rounding remains."""
    if not isinstance(right, Tensor):
        return e.emit(name, [e.value(left)], scalar=right * alpha, side="right")
    kind = TensorType("f32" if e.type.is_float else e.type.dtype, tuple(right.shape))
    product = e.emit("mul", [e.value(right)], kind, scalar=alpha, side="right")
    return e.emit(name, [e.value(left), product])


def _logical(name: str) -> Converter:
    """On truth values: a number is true where it is not 0."""

    def convert(e: Emitter) -> int:
        truths = []
        for tensor in e.args[:2]:
            value = e.value(tensor)
            if e.builder.types[value].dtype != "bool":
                kind = TensorType("bool", tuple(tensor.shape))
                value = e.emit("ne", [value], kind, scalar=0, side="right")
            truths.append(value)
        return e.emit(name, truths)

    return convert


def _complement(e: Emitter) -> int:
    """All bits turned: ``not`` of a truth, exclusive or with -1 of an integer; u8 has no -1."""
    value, dtype = e.value(e.args[0]), e.type.dtype
    if dtype == "bool":
        return e.emit("not", [value])
    return e.emit("bit_xor", [value], scalar=255 if dtype == "u8" else -1, side="right")


def _clamp(e: Emitter) -> int:
    value = e.value(e.args[0])
    for name, bound in (("maximum", e.arg(1, "min")), ("minimum", e.arg(2, "max"))):
        if isinstance(bound, Tensor):
            value = e.emit(name, [value, e.value(bound)])
        elif bound is not None:
            value = e.emit(name, [value], scalar=bound, side="right")
    return value


def _sign(e: Emitter) -> int:
    """1 where above 0, less 1 where below it."""
    value, kind = e.value(e.args[0]), TensorType("bool", e.type.shape)
    above, below = (
        e.cast(e.emit(name, [value], kind, scalar=0, side="right"), e.type.dtype) for name in ("gt", "lt")
    )
    return e.emit("sub", [above, below])


def _truth_over(name: str) -> Converter:
    """``any`` and ``all``, over the axes in the second argument or over every one."""

    def convert(e: Emitter) -> int:
        x = e.args[0]
        value = e.emit("ne", [e.value(x)], TensorType("bool", tuple(x.shape)), scalar=0, side="right")
        keep = bool(e.arg(2, "keepdim", False))
        return e.emit(name, [value], axes=axes_of(e.arg(1, "dim"), x.dim()), keep=keep)

    return convert


def _reversed_sub(e: Emitter) -> int:
    if e.arg(2, "alpha", 1) != 1:
        raise NotImplementedError("alpha")
    return e.emit("sub", [e.value(e.args[0])], scalar=e.args[1], side="left")


def _axis_operator(name: str) -> Converter:
    return lambda e: e.emit(name, [e.value(e.args[0])], axis=axis_of(e.args[1], e.args[0].dim()))


def _softmax_gradient(name: str) -> Converter:
    return lambda e: e.emit(
        name, [e.value(e.args[0]), e.value(e.args[1])], axis=axis_of(e.args[2], e.args[0].dim())
    )


def _gelu(e: Emitter) -> int:
    return e.emit("gelu", [e.value(e.args[0])], approximate=e.kwargs.get("approximate", "none"))


def _gelu_backward(e: Emitter) -> int:
    inputs = [e.value(e.args[0]), e.value(e.args[1])]
    return e.emit("gelu_grad", inputs, approximate=e.kwargs.get("approximate", "none"))


def _reduction(name: str) -> Converter:
    def convert(e: Emitter) -> int:
        x = e.args[0]
        axes = axes_of(e.arg(1, "dim"), x.dim())
        return e.emit(name, [_summand(e)], axes=axes, keep=bool(e.arg(2, "keepdim", False)))

    return convert


def _full_reduction(name: str) -> Converter:
    return lambda e: e.emit(name, [_summand(e)], axes=tuple(range(e.args[0].dim())), keep=False)


def _summand(e: Emitter) -> int:
    """The operand; in the result's type where integers are to be summed as floats."""
    value = e.value(e.args[0])
    return e.cast(value, e.type.dtype) if e.type.is_float and not e.builder.types[value].is_float else value


def _argmax(e: Emitter) -> int:
    axis = e.arg(1, "dim")
    if axis is None:
        raise NotImplementedError("argmax over all axes")
    keep = bool(e.arg(2, "keepdim", False))
    return e.emit("argmax", [e.value(e.args[0])], axis=axis_of(axis, e.args[0].dim()), keep=keep)


def _matmul(e: Emitter) -> int:
    return e.emit("matmul", [e.value(e.args[0]), e.value(e.args[1])])


def _addmm(e: Emitter) -> int:
    """Bias and product meet in float32, as they do in PSUM, and are rounded once."""
    if e.kwargs.get("alpha", 1) != 1 or e.kwargs.get("beta", 1) != 1:
        raise NotImplementedError("alpha or beta")
    product = e.emit("matmul", [e.value(e.args[1]), e.value(e.args[2])], TensorType("f32", e.type.shape))
    return e.emit("add", [e.value(e.args[0]), product])


def _to_copy(e: Emitter) -> int:
    return e.cast(e.value(e.args[0]), e.type.dtype)


_UNARY = "neg abs exp log sqrt rsqrt reciprocal sigmoid silu tanh erf sin cos relu"
_BINARY = "add sub mul div maximum minimum eq ne lt le gt ge"
_INTEGER = {
    "bitwise_and": "bit_and",
    "bitwise_or": "bit_or",
    "bitwise_xor": "bit_xor",
    "__and__": "bit_and",
    "__or__": "bit_or",
    "__xor__": "bit_xor",
    "bitwise_left_shift": "shift_left",
    "bitwise_right_shift": "shift_right",
    "__lshift__": "shift_left",
    "__rshift__": "shift_right",
    "remainder": "remainder",
    "pow": "pow",
}


def _families() -> dict[Any, Converter]:
    found: dict[Any, Converter] = {}
    for name in _UNARY.split():
        found |= overloads(name, _unary(name))
    for name in _BINARY.split():
        found |= overloads(name, _binary(name))
    for theirs, ours in _INTEGER.items():
        found |= overloads(theirs, _binary(ours))
    return found


def _single() -> dict[Any, Converter]:
    return {
        aten.logical_not.default: _unary("not"),
        aten.logical_and.default: _logical("bit_and"),
        aten.logical_or.default: _logical("bit_or"),
        aten.logical_xor.default: _logical("bit_xor"),
        aten.bitwise_not.default: _complement,
        aten.clamp.default: _clamp,
        aten.clamp.Tensor: _clamp,
        aten.clamp_min.default: _clamp,
        aten.clamp_min.Tensor: _clamp,
        aten.sign.default: _sign,
        aten.any.default: _truth_over("amax"),
        aten.any.dim: _truth_over("amax"),
        aten.any.dims: _truth_over("amax"),
        aten.all.default: _truth_over("amin"),
        aten.all.dim: _truth_over("amin"),
        aten.all.dims: _truth_over("amin"),
        aten.rsub.Scalar: _reversed_sub,
        aten._softmax.default: _axis_operator("softmax"),
        aten._log_softmax.default: _axis_operator("log_softmax"),
        aten._softmax_backward_data.default: _softmax_gradient("softmax_grad"),
        aten._log_softmax_backward_data.default: _softmax_gradient("log_softmax_grad"),
        aten.silu_backward.default: lambda e: e.emit("silu_grad", [e.value(e.args[0]), e.value(e.args[1])]),
        aten.gelu.default: _gelu,
        aten.gelu_backward.default: _gelu_backward,
        aten.sum.dim_IntList: _reduction("sum"),
        aten.sum.default: _full_reduction("sum"),
        aten.mean.dim: _reduction("mean"),
        aten.mean.default: _full_reduction("mean"),
        aten.amax.default: _reduction("amax"),
        aten.amin.default: _reduction("amin"),
        aten.argmax.default: _argmax,
        aten.mm.default: _matmul,
        aten.bmm.default: _matmul,
        aten.addmm.default: _addmm,
        aten.baddbmm.default: _addmm,
        aten._to_copy.default: _to_copy,
    }


CONVERTERS: Mapping[Any, Converter] = MappingProxyType({**_families(), **_single(), **MOVEMENT})
"""Converters by ATen overload."""
