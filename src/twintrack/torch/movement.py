"""Converters of ATen operators that move, view, choose or make elements and compute nothing."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from twintrack.compiler.ir import TensorType
from twintrack.torch.emitter import Converter, Emitter, axis_of, constant_of, overloads, reshaped

__all__ = ["MOVEMENT"]

aten = torch.ops.aten


def _same(e: Emitter) -> int:
    return e.value(e.args[0])


def _reshape(e: Emitter) -> int:
    return reshaped(e, e.value(e.args[0]), e.type.shape)


def _expand(e: Emitter) -> int:
    value = e.value(e.args[0])
    if e.builder.types[value].shape == e.type.shape:
        return value
    return e.emit("broadcast", [value], shape=e.type.shape)


def _permute(e: Emitter) -> int:
    rank = e.args[0].dim()
    return e.emit("transpose", [e.value(e.args[0])], order=tuple(axis_of(a, rank) for a in e.args[1]))


def _swap(e: Emitter) -> int:
    rank = e.args[0].dim()
    order = list(range(rank))
    if rank == 0:
        return _same(e)
    first, second = axis_of(e.args[1], rank), axis_of(e.args[2], rank)
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
    axis = axis_of(e.arg(1, "dim", 0), x.dim())
    start, stop, _ = slice(e.arg(2, "start"), e.arg(3, "end")).indices(x.shape[axis])
    return _sliced(e, e.value(x), axis, start, max(start, stop), e.arg(4, "step", 1))


def _select(e: Emitter) -> int:
    x = e.args[0]
    axis = axis_of(e.args[1], x.dim())
    index = e.args[2] % x.shape[axis]
    return reshaped(e, _sliced(e, e.value(x), axis, index, index + 1), e.type.shape)


def _split(e: Emitter) -> list[int]:
    x = e.args[0]
    axis = axis_of(e.arg(2, "dim", 0), x.dim())
    value, start, pieces = e.value(x), 0, []
    for piece in e.out:
        pieces.append(_sliced(e, value, axis, start, start + piece.shape[axis]))
        start += piece.shape[axis]
    return pieces


def _unbind(e: Emitter) -> list[int]:
    x = e.args[0]
    axis = axis_of(e.arg(1, "dim", 0), x.dim())
    value = e.value(x)
    return [reshaped(e, _sliced(e, value, axis, i, i + 1), tuple(t.shape)) for i, t in enumerate(e.out)]


def _concat(e: Emitter) -> int:
    """Empty parts go: PyTorch lets them have any rank."""
    kind = e.type.dtype
    values = [e.cast(e.value(t), kind) for t in e.args[0] if t.numel()]
    if not values:
        return constant_of(e, 0, e.type)
    if len(values) == 1:
        return values[0]
    return e.emit("concat", values, axis=axis_of(e.arg(1, "dim", 0), e.out.dim()))


def _slice_backward(e: Emitter) -> int:
    grad, sizes, axis, start, _, step = e.args
    axis = axis_of(axis, len(sizes))
    if step != 1:
        raise NotImplementedError("gradient of a slice with a step")
    begin = slice(start, None).indices(sizes[axis])[0]
    after = sizes[axis] - begin - grad.shape[axis]
    return e.emit("pad", [e.value(grad)], axis=axis, before=begin, after=after)


def _select_backward(e: Emitter) -> int:
    grad, sizes, axis, index = e.args
    axis = axis_of(axis, len(sizes))
    index %= sizes[axis]
    shape = (*sizes[:axis], 1, *sizes[axis + 1 :])
    value = reshaped(e, e.value(grad), tuple(shape))
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
    if scale:
        raise NotImplementedError("scale_grad_by_freq")
    value, number = e.value(grad), e.value(ids)
    if padding >= 0:
        value = _without_padding(e, value, number, padding)
    return e.emit("add_rows", [value, number], rows=rows)


def _without_padding(e: Emitter, grad: int, ids: int, padding: int) -> int:
    """Zeros for the rows whose id is that of the padding: its embedding does not learn."""
    kind, places = e.builder.types[grad], e.builder.types[ids].shape
    kept = e.emit("ne", [ids], TensorType("bool", places), scalar=padding, side="right")
    mask = reshaped(e, kept, (*places, 1))
    zero = constant_of(e, 0.0, TensorType(kind.dtype, ()))
    return e.emit("select", [mask, grad, zero], kind)


def _gather(e: Emitter) -> int:
    return e.emit(
        "gather", [e.value(e.args[0]), e.value(e.args[2])], axis=axis_of(e.args[1], e.args[0].dim())
    )


def _scatter_add(e: Emitter) -> int:
    target, axis, index, source = e.args
    base = e.value(target)
    added = e.emit(
        "scatter_add",
        [e.value(source), e.value(index)],
        axis=axis_of(axis, target.dim()),
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
        return constant_of(e, number if position is None else e.args[position], e.type)

    return convert


_SAME = "detach alias clone lift_fresh lift_fresh_copy contiguous"
_RESHAPE = "view _unsafe_view reshape unsqueeze squeeze flatten"


def _table() -> dict[Any, Converter]:
    return {
        **overloads(_SAME, _same),
        **overloads(_RESHAPE, _reshape),
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


MOVEMENT: Mapping[Any, Converter] = MappingProxyType(_table())
"""Converters by ATen overload."""
