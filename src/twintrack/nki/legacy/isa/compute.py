"""``neuronxcc.nki.isa``: instructions that compute. Each makes its result tile, in SBUF, and takes a mask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twintrack.neuroncore.memory.dtypes import DType
from twintrack.nki import isa
from twintrack.nki.isa.constants import engine as _engine
from twintrack.nki.isa.constants import reduce_cmd as _command
from twintrack.nki.language.tiles import promoted
from twintrack.nki.legacy.copies import repeated
from twintrack.nki.legacy.reductions import axes_of, last
from twintrack.nki.legacy.regions import Along, fresh, in_sbuf, kind_of, on_chip, over
from twintrack.nki.legacy.tile import Tile
from twintrack.nki.tensor import NkiTensor

__all__ = [
    "activation",
    "activation_reduce",
    "bn_aggr",
    "bn_stats",
    "dropout",
    "reciprocal",
    "scalar_tensor_tensor",
    "tensor_partition_reduce",
    "tensor_reduce",
    "tensor_scalar",
    "tensor_scalar_cumulative",
    "tensor_scalar_reduce",
    "tensor_tensor",
    "tensor_tensor_scan",
]


def optional(function: str, name: str, value: Any) -> Any:
    """An operand that is a tile, a number or absent."""
    return on_chip(function, name, value) if isinstance(value, NkiTensor) else value


def _elementwise(
    function: str,
    data: Any,
    others: Sequence[tuple[str, Any]],
    dtype: DType | None,
    mask: Any,
    issue: Callable[..., Any],
) -> Tile:
    """A result shaped as ``data``; ``issue`` takes it, ``data`` and the others, cut."""
    tile = on_chip(function, "data", data)
    made = fresh(tile.shape, tile.dtype if dtype is None else dtype)
    rest = [optional(function, name, one) for name, one in others]
    over(mask, tile.shape, [made, tile, *rest], issue, made)
    return made


def _kind(dtype: Any) -> DType | None:
    return None if dtype is None else kind_of(dtype, dtype)


def activation(
    op: Any,
    data: Any,
    *,
    bias: Any = None,
    scale: Any = 1.0,
    reduce_op: Any = None,
    reduce_res: Any = None,
    reduce_cmd: _command = _command.idle,
    mask: Any = None,
    dtype: Any = None,
    name: str | None = None,
) -> Tile:
    """``op(data * scale + bias)``; see the current ``nisa.activation``."""

    def issue(dst: Tile, part: Tile, b: Any, s: Any, result: Any) -> None:
        isa.activation(dst, op, part, b, s, reduce_op, result, reduce_cmd, name)

    others = [("bias", bias), ("scale", scale), ("reduce_res", reduce_res)]
    return _elementwise("nisa.activation", data, others, _kind(dtype), mask, issue)


def activation_reduce(
    op: Any,
    data: Any,
    *,
    reduce_op: Any,
    reduce_res: Any,
    bias: Any = None,
    scale: Any = 1.0,
    mask: Any = None,
    dtype: Any = None,
    name: str | None = None,
) -> Tile:
    """``op(data * scale + bias)`` and its sum per partition; see the current ``nisa.activation_reduce``."""

    def issue(dst: Tile, part: Tile, b: Any, s: Any, result: Any) -> None:
        isa.activation_reduce(dst, op, part, reduce_op, result, b, s, name)

    others = [("bias", bias), ("scale", scale), ("reduce_res", reduce_res)]
    return _elementwise("nisa.activation_reduce", data, others, _kind(dtype), mask, issue)


def reciprocal(data: Any, *, dtype: Any = None, mask: Any = None, name: str | None = None) -> Tile:
    """``1 / data`` on the Vector Engine; see the current ``nisa.reciprocal``."""
    issue = lambda dst, part: isa.reciprocal(dst, part, name)  # noqa: E731
    return _elementwise("nisa.reciprocal", data, [], _kind(dtype), mask, issue)


def dropout(data: Any, prob: Any, *, mask: Any = None, dtype: Any = None, name: str | None = None) -> Tile:
    """Elements set to 0 with a probability; see the current ``nisa.dropout``."""
    issue = lambda dst, part, p: isa.dropout(dst, part, p, name)  # noqa: E731
    return _elementwise("nisa.dropout", data, [("prob", prob)], _kind(dtype), mask, issue)


def tensor_tensor(
    data1: Any,
    data2: Any,
    op: Any,
    *,
    dtype: Any = None,
    mask: Any = None,
    engine: _engine = _engine.unknown,
    name: str | None = None,
) -> Tile:
    """``data1 <op> data2``; the wider type where none is named; free dimensions of size 1 are repeated."""
    left, right = on_chip("nisa.tensor_tensor", "data1", data1), on_chip("nisa.tensor_tensor", "data2", data2)
    kind = kind_of(dtype, promoted(left.dtype, right.dtype))
    shape = left.shape if left.size >= right.size else right.shape
    if left.ndim == right.ndim and left.shape != right.shape and left.shape[0] == right.shape[0]:
        left, right = (
            repeated("nisa.tensor_tensor", left, shape),
            repeated("nisa.tensor_tensor", right, shape),
        )
    made = fresh(shape, kind)
    over(
        mask,
        shape,
        [made, left, right],
        lambda dst, a, b: isa.tensor_tensor(dst, a, b, op, engine, name),
        made,
    )
    return made


def tensor_scalar(
    data: Any,
    op0: Any,
    operand0: Any,
    reverse0: bool = False,
    op1: Any = None,
    operand1: Any = None,
    reverse1: bool = False,
    *,
    dtype: Any = None,
    mask: Any = None,
    engine: _engine = _engine.unknown,
    name: str | None = None,
) -> Tile:
    """``(data <op0> operand0) <op1> operand1``; see the current ``nisa.tensor_scalar``."""

    def issue(dst: Tile, part: Tile, a: Any, b: Any) -> None:
        isa.tensor_scalar(dst, part, op0, a, reverse0, op1, b, reverse1, engine, name)

    others = [("operand0", operand0), ("operand1", operand1)]
    return _elementwise("nisa.tensor_scalar", data, others, _kind(dtype), mask, issue)


def scalar_tensor_tensor(
    *,
    data: Any,
    op0: Any,
    operand0: Any,
    op1: Any,
    operand1: Any,
    reverse0: bool = False,
    reverse1: bool = False,
    dtype: Any = None,
    mask: Any = None,
    name: str | None = None,
) -> Tile:
    """``(data <op0> operand0) <op1> operand1``, ``operand1`` a tile; see the current one."""

    def issue(dst: Tile, part: Tile, a: Any, b: Any) -> None:
        isa.scalar_tensor_tensor(dst, part, op0, a, op1, b, reverse0, reverse1, name)

    others = [("operand0", operand0), ("operand1", operand1)]
    return _elementwise("nisa.scalar_tensor_tensor", data, others, _kind(dtype), mask, issue)


def tensor_scalar_reduce(
    *,
    data: Any,
    op0: Any,
    operand0: Any,
    reduce_op: Any,
    reduce_res: Any,
    reverse0: bool = False,
    dtype: Any = None,
    mask: Any = None,
    name: str | None = None,
) -> Tile:
    """``data <op0> operand0`` and its reduction per partition; see the current one."""

    def issue(dst: Tile, part: Tile, a: Any, result: Any) -> None:
        isa.tensor_scalar_reduce(dst, part, op0, a, reduce_op, result, reverse0, name=name)

    others = [("operand0", operand0), ("reduce_res", reduce_res)]
    return _elementwise("nisa.tensor_scalar_reduce", data, others, _kind(dtype), mask, issue)


def tensor_scalar_cumulative(
    *,
    src: Any,
    dst: Any,
    op0: Any,
    op1: Any,
    imm0: Any,
    imm1: Any = None,
    reduce_cmd: _command = _command.reset_reduce,
    mask: Any = None,
    name: str | None = None,
) -> None:
    """A scan of ``src <op0> imm0`` by ``op1`` into ``dst``; later than 2.26, as of 2.32."""
    function = "nisa.tensor_scalar_cumulative"
    tiles = [on_chip(function, "dst", dst), on_chip(function, "src", src)]
    others = [optional(function, "imm0", imm0), optional(function, "imm1", imm1)]

    def issue(out: Tile, part: Tile, a: Any, b: Any) -> None:
        isa.tensor_scalar_cumulative(out, part, op0, op1, a, b, reduce_cmd, name)

    over(mask, tiles[1].shape, [*tiles, *others], issue)


def tensor_tensor_scan(
    data0: Any,
    data1: Any,
    initial: Any,
    op0: Any,
    op1: Any,
    reverse0: bool = False,
    reverse1: bool = False,
    *,
    dtype: Any = None,
    mask: Any = None,
    name: str | None = None,
) -> Tile:
    """A scan of two tiles; the wider type where none is named. See the current ``nisa.tensor_tensor_scan``."""
    left = on_chip("nisa.tensor_tensor_scan", "data0", data0)
    right = on_chip("nisa.tensor_tensor_scan", "data1", data1)
    kind = kind_of(dtype, promoted(left.dtype, right.dtype))

    def issue(dst: Tile, a: Tile, b: Tile, start: Any) -> None:
        isa.tensor_tensor_scan(dst, a, b, start, op0, op1, reverse0, reverse1, name)

    return _elementwise(
        "nisa.tensor_tensor_scan", left, [("data1", right), ("initial", initial)], kind, mask, issue
    )


def tensor_reduce(
    op: Any,
    data: Any,
    axis: Any,
    *,
    mask: Any = None,
    dtype: Any = None,
    negate: bool = False,
    keepdims: bool = False,
    name: str | None = None,
) -> Tile:
    """``data`` reduced along free axes, ``(P, 1)`` where nothing else is left; see the current one."""
    tile = on_chip("nisa.tensor_reduce", "data", data)
    axes = axes_of("nisa.tensor_reduce", tile, axis)
    kept: list[int | None] = [one for one in range(tile.ndim) if one not in axes]
    kept = kept if len(kept) > 1 else [*kept, None]
    made = fresh([1 if one is None else tile.shape[one] for one in kept], kind_of(dtype, tile.dtype))

    def issue(dst: Tile, part: Tile) -> None:
        moved, ends = last(part, axes)
        isa.tensor_reduce(dst, op, moved, ends, negate, name=name)

    over(mask, tile.shape, [Along(made, tuple(kept)), tile], issue, made)
    if not keepdims:
        return made
    shaped = made.reshape(tuple([1 if one in axes else size for one, size in enumerate(tile.shape)]))
    assert isinstance(shaped, Tile)  # noqa: S101
    return shaped


def tensor_partition_reduce(
    op: Any, data: Any, *, mask: Any = None, dtype: Any = None, name: str | None = None
) -> Tile:
    """``data`` reduced over its partitions, on GpSimd; see the current ``nisa.tensor_partition_reduce``."""
    tile = in_sbuf("nisa.tensor_partition_reduce", "data", data)
    made = fresh((1, *tile.shape[1:]), kind_of(dtype, tile.dtype))
    axes = (None, *range(1, tile.ndim))
    issue = lambda dst, part: isa.tensor_partition_reduce(dst, op, part, name)  # noqa: E731
    over(mask, tile.shape, [Along(made, axes), tile], issue, made)
    return made


def bn_stats(data: Any, *, mask: Any = None, dtype: Any = None, name: str | None = None) -> Tile:
    """Six statistics per partition, over all free dimensions; see the current ``nisa.bn_stats``."""
    return _rows("nisa.bn_stats", isa.bn_stats, data, 6, dtype, mask, name)


def bn_aggr(data: Any, *, mask: Any = None, dtype: Any = None, name: str | None = None) -> Tile:
    """Mean and variance per partition from results of ``bn_stats``; see the current ``nisa.bn_aggr``."""
    return _rows("nisa.bn_aggr", isa.bn_aggr, data, 2, dtype, mask, name)


def _rows(
    function: str,
    instruction: Callable[..., Any],
    data: Any,
    columns: int,
    dtype: Any,
    mask: Any,
    name: str | None,
) -> Tile:
    """A result of some elements per partition."""
    tile = on_chip(function, "data", data)
    made = fresh((tile.shape[0], columns), kind_of(dtype, tile.dtype))
    over(
        mask,
        tile.shape,
        [Along(made, (0, None)), tile],
        lambda dst, part: instruction(dst, part, name=name),
        made,
    )
    return made
