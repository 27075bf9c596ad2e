"""How ATen operators become operators of the IR: one small function per family, dispatched by a table.

A converter gets an ``Emitter`` and the observed call, and returns the value (or values) of its result. What has no
converter is decomposed by PyTorch's own core ATen decompositions; what then still has none is not supported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from twintrack.compiler.ir import Attribute, TensorType
from twintrack.torch.builder import Builder, type_of

__all__ = ["CONVERTERS", "Emitter", "constant_of"]

aten = torch.ops.aten


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


def constant_of(e: Emitter, value: float | bool, kind: TensorType) -> int:
    """A tensor filled with one number."""
    return e.emit("constant", [], kind, value=value, shape=kind.shape)


def _axis(axis: int, rank: int) -> int:
    return axis % rank if rank else 0


def _axes(axes: Sequence[int] | int | None, rank: int) -> tuple[int, ...]:
    if axes is None or axes == []:
        return tuple(range(rank))
    return tuple(sorted(_axis(a, rank) for a in ([axes] if isinstance(axes, int) else axes)))


def _unary(name: str) -> Converter:
    return lambda e: e.emit(name, [e.value(e.args[0])])


def _same(e: Emitter) -> int:
    return e.value(e.args[0])


def _binary(name: str) -> Converter:
    def convert(e: Emitter) -> int:
        left, right = e.args[0], e.args[1]
        if e.kwargs.get("alpha", 1) != 1 or e.kwargs.get("rounding_mode") is not None:
            raise NotImplementedError("alpha or rounding_mode")
        if isinstance(left, Tensor) and isinstance(right, Tensor):
            return e.emit(name, [e.value(left), e.value(right)])
        if isinstance(left, Tensor):
            return e.emit(name, [e.value(left)], scalar=right, side="right")
        return e.emit(name, [e.value(right)], scalar=left, side="left")

    return convert


def _reversed_sub(e: Emitter) -> int:
    if e.arg(2, "alpha", 1) != 1:
        raise NotImplementedError("alpha")
    return e.emit("sub", [e.value(e.args[0])], scalar=e.args[1], side="left")


def _axis_operator(name: str) -> Converter:
    return lambda e: e.emit(name, [e.value(e.args[0])], axis=_axis(e.args[1], e.args[0].dim()))


def _softmax_gradient(name: str) -> Converter:
    return lambda e: e.emit(
        name, [e.value(e.args[0]), e.value(e.args[1])], axis=_axis(e.args[2], e.args[0].dim())
    )


def _gelu(e: Emitter) -> int:
    return e.emit("gelu", [e.value(e.args[0])], approximate=e.kwargs.get("approximate", "none"))


def _gelu_backward(e: Emitter) -> int:
    inputs = [e.value(e.args[0]), e.value(e.args[1])]
    return e.emit("gelu_grad", inputs, approximate=e.kwargs.get("approximate", "none"))


def _reduction(name: str) -> Converter:
    def convert(e: Emitter) -> int:
        x = e.args[0]
        axes = _axes(e.arg(1, "dim"), x.dim())
        return e.emit(name, [e.value(x)], axes=axes, keep=bool(e.arg(2, "keepdim", False)))

    return convert


def _full_reduction(name: str) -> Converter:
    return lambda e: e.emit(name, [e.value(e.args[0])], axes=tuple(range(e.args[0].dim())), keep=False)


def _argmax(e: Emitter) -> int:
    axis = e.arg(1, "dim")
    if axis is None:
        raise NotImplementedError("argmax over all axes")
    keep = bool(e.arg(2, "keepdim", False))
    return e.emit("argmax", [e.value(e.args[0])], axis=_axis(axis, e.args[0].dim()), keep=keep)


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


def _reshape(e: Emitter) -> int:
    return _reshaped(e, e.value(e.args[0]), e.type.shape)


def _reshaped(e: Emitter, value: int, shape: tuple[int, ...]) -> int:
    kind = e.builder.types[value]
    return (
        value
        if kind.shape == shape
        else e.emit("reshape", [value], TensorType(kind.dtype, shape), shape=shape)
    )


def _expand(e: Emitter) -> int:
    value = e.value(e.args[0])
    if e.builder.types[value].shape == e.type.shape:
        return value
    return e.emit("broadcast", [value], shape=e.type.shape)


def _permute(e: Emitter) -> int:
    rank = e.args[0].dim()
    return e.emit("transpose", [e.value(e.args[0])], order=tuple(_axis(a, rank) for a in e.args[1]))


def _swap(e: Emitter) -> int:
    rank = e.args[0].dim()
    order = list(range(rank))
    first, second = _axis(e.args[1], rank), _axis(e.args[2], rank)
    order[first], order[second] = order[second], order[first]
    return e.emit("transpose", [e.value(e.args[0])], order=tuple(order))


def _transpose_2d(e: Emitter) -> int:
    return e.emit("transpose", [e.value(e.args[0])], order=(1, 0)) if e.args[0].dim() == 2 else _same(e)


def _sliced(e: Emitter, value: int, axis: int, start: int, stop: int, step: int = 1) -> int:
    kind = e.builder.types[value]
    size = -(-(stop - start) // step)
    if size == kind.shape[axis]:
        return value
    result = TensorType(kind.dtype, (*kind.shape[:axis], size, *kind.shape[axis + 1 :]))
    return e.emit("slice", [value], result, axis=axis, start=start, stop=stop, step=step)


def _slice(e: Emitter) -> int:
    x = e.args[0]
    axis = _axis(e.arg(1, "dim", 0), x.dim())
    start, stop, _ = slice(e.arg(2, "start"), e.arg(3, "end")).indices(x.shape[axis])
    return _sliced(e, e.value(x), axis, start, max(start, stop), e.arg(4, "step", 1))


def _select(e: Emitter) -> int:
    x = e.args[0]
    axis = _axis(e.args[1], x.dim())
    index = e.args[2] % x.shape[axis]
    return _reshaped(e, _sliced(e, e.value(x), axis, index, index + 1), e.type.shape)


def _split(e: Emitter) -> list[int]:
    x = e.args[0]
    axis = _axis(e.arg(2, "dim", 0), x.dim())
    value, start, pieces = e.value(x), 0, []
    for piece in e.out:
        pieces.append(_sliced(e, value, axis, start, start + piece.shape[axis]))
        start += piece.shape[axis]
    return pieces


def _unbind(e: Emitter) -> list[int]:
    x = e.args[0]
    axis = _axis(e.arg(1, "dim", 0), x.dim())
    value = e.value(x)
    return [_reshaped(e, _sliced(e, value, axis, i, i + 1), tuple(t.shape)) for i, t in enumerate(e.out)]


def _concat(e: Emitter) -> int:
    parts = [t for t in e.args[0] if t.numel()]
    if len(parts) == 1:
        return e.value(parts[0])
    kind = e.type.dtype
    values = [e.cast(e.value(t), kind) for t in parts]
    return e.emit("concat", values, axis=_axis(e.arg(1, "dim", 0), e.out.dim()))


def _slice_backward(e: Emitter) -> int:
    grad, sizes, axis, start, _, step = e.args
    axis = _axis(axis, len(sizes))
    if step != 1:
        raise NotImplementedError("gradient of a slice with a step")
    begin = slice(start, None).indices(sizes[axis])[0]
    after = sizes[axis] - begin - grad.shape[axis]
    return e.emit("pad", [e.value(grad)], axis=axis, before=begin, after=after)


def _select_backward(e: Emitter) -> int:
    grad, sizes, axis, index = e.args
    axis = _axis(axis, len(sizes))
    index %= sizes[axis]
    shape = (*sizes[:axis], 1, *sizes[axis + 1 :])
    value = _reshaped(e, e.value(grad), tuple(shape))
    return e.emit("pad", [value], axis=axis, before=index, after=sizes[axis] - index - 1)


def _where(e: Emitter) -> int:
    kind = e.type.dtype
    condition, left, right = e.args
    return e.emit("select", [e.value(condition), e.cast(e.value(left), kind), e.cast(e.value(right), kind)])


def _where_scalar(e: Emitter) -> int:
    """``where`` with a number on one side or both."""
    kind = e.type.dtype

    def side(x: Any) -> int:
        return e.cast(e.value(x), kind) if isinstance(x, Tensor) else constant_of(e, x, TensorType(kind, ()))

    return e.emit("select", [e.value(e.args[0]), side(e.args[1]), side(e.args[2])])


def _masked_fill(e: Emitter) -> int:
    x, mask, fill = e.args
    kind = e.type.dtype
    value = e.value(fill) if isinstance(fill, Tensor) else constant_of(e, fill, TensorType(kind, ()))
    return e.emit("select", [e.value(mask), e.cast(value, kind), e.value(x)])


def _embedding(e: Emitter) -> int:
    return e.emit("take_rows", [e.value(e.args[0]), e.value(e.args[1])])


def _embedding_backward(e: Emitter) -> int:
    grad, ids, rows, padding, scale = e.args
    if padding >= 0 or scale:
        raise NotImplementedError("padding_idx or scale_grad_by_freq")
    return e.emit("add_rows", [e.value(grad), e.value(ids)], rows=rows)


def _gather(e: Emitter) -> int:
    return e.emit("gather", [e.value(e.args[0]), e.value(e.args[2])], axis=_axis(e.args[1], e.args[0].dim()))


def _scatter_add(e: Emitter) -> int:
    target, axis, index, source = e.args
    base = e.value(target)
    added = e.emit(
        "scatter_add",
        [e.value(source), e.value(index)],
        axis=_axis(axis, target.dim()),
        shape=tuple(target.shape),
    )
    return added if e.builder.is_zero(base) else e.emit("add", [base, added])


def _arange(e: Emitter) -> int:
    numbers = [a for a in e.args if isinstance(a, int | float)]
    start, step = (0, 1) if len(numbers) == 1 else (numbers[0], numbers[2] if len(numbers) > 2 else 1)
    if not all(isinstance(n, int) for n in numbers):
        raise NotImplementedError("arange with fractions")
    return e.emit("iota", [], count=e.out.shape[0], start=start, step=step)


def _filled(number: float, position: int | None = None) -> Converter:
    """A creation operator: all ``number``, or the number in argument ``position``."""

    def convert(e: Emitter) -> int:
        fill = number if position is None else e.args[position]
        if isinstance(fill, float) and not math.isfinite(fill):
            raise NotImplementedError("a tensor filled with an infinity or NaN")
        return constant_of(e, fill, e.type)

    return convert


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
_SAME = "detach alias clone lift_fresh lift_fresh_copy contiguous"
_RESHAPE = "view _unsafe_view reshape unsqueeze squeeze flatten"


def _families() -> dict[Any, Converter]:
    table: dict[str, Converter] = {name: _unary(name) for name in _UNARY.split()}
    table |= {name: _binary(name) for name in _BINARY.split()}
    table |= {name: _binary(ours) for name, ours in _INTEGER.items()}
    table |= dict.fromkeys(_SAME.split(), _same)
    table |= dict.fromkeys(_RESHAPE.split(), _reshape)
    found: dict[Any, Converter] = {}
    for name, converter in table.items():
        packet = getattr(aten, name, None)
        for overload in packet.overloads() if packet is not None else ():
            if not overload.endswith("out") and "Dimname" not in overload:
                found[getattr(packet, overload)] = converter
    return found


def _single() -> dict[Any, Converter]:
    return {
        aten.logical_not.default: _unary("not"),
        aten.logical_and.default: _binary("bit_and"),
        aten.logical_or.default: _binary("bit_or"),
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
        aten.expand.default: _expand,
        aten.permute.default: _permute,
        aten.transpose.int: _swap,
        aten.t.default: _transpose_2d,
        aten.slice.Tensor: _slice,
        aten.select.int: _select,
        aten.split.Tensor: _split,
        aten.split_with_sizes.default: _split,
        aten.unbind.int: _unbind,
        aten.cat.default: _concat,
        aten.slice_backward.default: _slice_backward,
        aten.select_backward.default: _select_backward,
        aten.where.self: _where,
        aten.where.ScalarOther: _where_scalar,
        aten.where.ScalarSelf: _where_scalar,
        aten.where.Scalar: _where_scalar,
        aten.masked_fill.Scalar: _masked_fill,
        aten.masked_fill.Tensor: _masked_fill,
        aten.embedding.default: _embedding,
        aten.embedding_dense_backward.default: _embedding_backward,
        aten.gather.default: _gather,
        aten.scatter_add.default: _scatter_add,
        aten.arange.default: _arange,
        aten.arange.start: _arange,
        aten.arange.start_step: _arange,
        aten.zeros.default: _filled(0),
        aten.zeros_like.default: _filled(0),
        aten.new_zeros.default: _filled(0),
        aten.ones.default: _filled(1),
        aten.ones_like.default: _filled(1),
        aten.new_ones.default: _filled(1),
        aten.full.default: _filled(0, 1),
        aten.full_like.default: _filled(0, 1),
        aten.new_full.default: _filled(0, 2),
        aten.scalar_tensor.default: _filled(0, 0),
    }


CONVERTERS: Mapping[Any, Converter] = MappingProxyType({**_families(), **_single()})
"""Converters by ATen overload."""
