"""``neuronxcc.nki.isa``: instructions that generate patterns, select by them, and look up data."""

from __future__ import annotations

from typing import Any

from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.dtypes import DTYPES
from twintrack.nki import isa
from twintrack.nki.isa.constants import reduce_cmd as _command
from twintrack.nki.isa.issue import author_error, op_name
from twintrack.nki.legacy.indexing import Affine, Predicate
from twintrack.nki.legacy.isa.compute import optional
from twintrack.nki.legacy.limits import fp32
from twintrack.nki.legacy.regions import Along, fresh, in_sbuf, kind_of, on_chip, over
from twintrack.nki.legacy.tile import Tile

__all__ = [
    "affine_select",
    "iota",
    "local_gather",
    "max8",
    "nc_find_index8",
    "nc_match_replace8",
    "nc_stream_shuffle",
    "range_select",
    "select_reduce",
    "sequence_bounds",
]


def _pattern(expression: Affine) -> tuple[list[list[int]], int, int]:
    """Pattern of the free axes, offset and channel multiplier of an expression."""
    pairs = [[step, size] for step, size in zip(expression.coefs[1:], expression.shape[1:], strict=True)]
    return pairs or [[0, 1]], expression.const, expression.coefs[0]


def iota(expr: Any, dtype: Any, *, mask: Any = None, name: str | None = None) -> Tile:
    """A new tile in SBUF that holds an index expression's values; see the current ``nisa.iota``."""
    if not isinstance(expr, Affine):
        raise author_error(
            "an index expression for nisa.iota", type(expr).__name__, "use nl.arange or nl.mgrid"
        )
    shape = expr.shape if expr.ndim > 1 else (*expr.shape, 1)
    made = fresh(shape, kind_of(dtype, DTYPES["int32"]))
    if mask is not None and mask is not True:
        whole = fresh(shape, made.dtype)
        isa.iota(whole, *_pattern(expr), name=name)
        over(mask, shape, [made, whole], isa.tensor_copy, made)
        return made
    over(None, shape, [made], lambda dst: isa.iota(dst, *_pattern(expr), name=name))
    return made


def affine_select(
    pred: Any,
    on_true_tile: Any,
    on_false_value: Any,
    *,
    mask: Any = None,
    dtype: Any = None,
    name: str | None = None,
) -> Tile:
    """``on_true_tile`` where a comparison of index expressions holds, else a number.

    Several comparisons joined by ``&`` are as many instructions.

    Raises:
        KernelError: if the predicate is none, or has other axes than the tile.
    """
    tile = in_sbuf("nisa.affine_select", "on_true_tile", on_true_tile)
    if not isinstance(pred, Predicate) or pred.never:
        raise author_error(
            "a comparison of index expressions as pred", type(pred).__name__, "compare nl.arange or nl.mgrid"
        )
    rank = tile.ndim
    kind = kind_of(dtype, tile.dtype)
    for comparison in pred.comparisons:
        expression = Affine(tile.shape, comparison.expression.aligned(rank), comparison.expression.const)
        pattern, offset, rows = _pattern(expression)
        made = fresh(tile.shape, kind)
        op = comparison.op

        def issue(dst: Tile, part: Tile) -> None:
            isa.affine_select(dst, pattern, rows, part, on_false_value, op, offset, name)  # noqa: B023

        if mask is None:
            over(None, tile.shape, [made, tile], issue)
        else:
            whole = fresh(tile.shape, kind)
            over(None, tile.shape, [whole, tile], issue)
            over(mask, tile.shape, [made, whole], isa.tensor_copy, made)
        tile = made
    return tile


def range_select(
    *,
    on_true_tile: Any,
    comp_op0: Any,
    comp_op1: Any,
    bound0: Any,
    bound1: Any,
    reduce_cmd: _command = _command.idle,
    reduce_res: Any = None,
    reduce_op: Any = "maximum",
    range_start: int = 0,
    on_false_value: float = fp32.min,
    mask: Any = None,
    dtype: Any = None,
    name: str | None = None,
) -> Tile:
    """``on_true_tile`` where an element's index lies between bounds; see the current ``nisa.range_select``."""
    function = "nisa.range_select"
    tile = on_chip(function, "on_true_tile", on_true_tile)
    bounds = [on_chip(function, "bound0", bound0), on_chip(function, "bound1", bound1)]
    made = fresh(tile.shape, kind_of(dtype, tile.dtype))

    def issue(dst: Tile, part: Tile, low: Tile, high: Tile, result: Any) -> None:
        commands = (reduce_cmd, result, op_name(reduce_op))
        isa.range_select(
            dst, part, comp_op0, comp_op1, low, high, *commands, range_start, on_false_value, name
        )

    over(mask, tile.shape, [made, tile, *bounds, optional(function, "reduce_res", reduce_res)], issue, made)
    return made


def select_reduce(
    *,
    dst: Any,
    predicate: Any,
    on_true: Any,
    on_false: Any,
    reduce_res: Any = None,
    reduce_cmd: _command = _command.idle,
    reduce_op: Any = "maximum",
    reverse_pred: bool = False,
    mask: Any = None,
    dtype: Any = None,
    name: str | None = None,
) -> None:
    """``dst = on_true where predicate else on_false``; see the current ``nisa.select_reduce``."""
    del dtype
    function = "nisa.select_reduce"
    tiles = [on_chip(function, key, one) for key, one in (("dst", dst), ("predicate", predicate))]
    value = on_chip(function, "on_true", on_true)
    others = [optional(function, "on_false", on_false), optional(function, "reduce_res", reduce_res)]

    def issue(out: Tile, asked: Tile, yes: Tile, no: Any, result: Any) -> None:
        isa.select_reduce(out, asked, yes, no, result, reduce_cmd, op_name(reduce_op), reverse_pred, name)

    over(mask, value.shape, [*tiles, value, *others], issue)


def sequence_bounds(*, segment_ids: Any, dtype: Any = None, name: str | None = None) -> Tile:
    """Bounds of segments, ``(1, 2, n)``; see the current ``nisa.sequence_bounds``."""
    tile = in_sbuf("nisa.sequence_bounds", "segment_ids", segment_ids)
    made = fresh((tile.shape[0], 2, tile.free_size), kind_of(dtype, tile.dtype))
    over(None, tile.shape, [made, tile], lambda dst, part: isa.sequence_bounds(dst, part, name))
    return made


def local_gather(
    src_buffer: Any,
    index: Any,
    num_elem_per_idx: int = 1,
    num_valid_indices: int | None = None,
    *,
    mask: Any = None,
    name: str | None = None,
) -> Tile:
    """Elements gathered by each GpSimd core with the indices of its 16 partitions; see the current one.

    Returns:
        ``(P, indices per partition, 16, num_elem_per_idx)``, or with fewer valid indices ``(P, valid, elements)``.
    """
    source = on_chip("nisa.local_gather", "src_buffer", src_buffer)
    chosen = on_chip("nisa.local_gather", "index", index)
    rows = source.shape[0]
    total = chosen.free_size * 16
    count = total if num_valid_indices is None else int(num_valid_indices)
    full = count == total
    shape = (rows, chosen.free_size, 16, num_elem_per_idx) if full else (rows, count, num_elem_per_idx)
    made = fresh(shape, source.dtype)

    def issue(dst: Tile, held: Tile, at: Tile) -> None:
        isa.local_gather(dst, held, at, num_elem_per_idx, num_valid_indices, name)

    over(mask, (rows,), [made, source, chosen], issue, made)
    return made


def max8(*, src: Any, mask: Any = None, dtype: Any = None, name: str | None = None) -> Tile:
    """The eight largest elements of every partition, descending; see the current ``nisa.max8``."""
    tile = on_chip("nisa.max8", "src", src)
    made = fresh((tile.shape[0], 8), kind_of(dtype, tile.dtype), MemoryRegion.sbuf)
    over(mask, tile.shape, [Along(made, (0, None)), tile], lambda dst, part: isa.max8(dst, part, name), made)
    return made


def nc_find_index8(
    *, data: Any, vals: Any, mask: Any = None, dtype: Any = None, name: str | None = None
) -> Tile:
    """Indices of eight values in every partition, uint32 where no type is named; see the current one."""
    tile, wanted = on_chip("nisa.nc_find_index8", "data", data), on_chip("nisa.nc_find_index8", "vals", vals)
    made = fresh((tile.shape[0], 8), kind_of(dtype, DTYPES["uint32"]))
    rows = [Along(made, (0, None)), tile, Along(wanted, (0, *[None] * (wanted.ndim - 1)))]
    over(mask, tile.shape, rows, lambda dst, part, v: isa.nc_find_index8(dst, part, v, name), made)
    return made


def nc_match_replace8(
    *,
    data: Any,
    vals: Any,
    imm: Any,
    dst_idx: Any = None,
    mask: Any = None,
    dtype: Any = None,
    name: str | None = None,
) -> Tile:
    """``data`` with the first match of each of eight values replaced; see the current ``nisa.nc_match_replace8``."""
    function = "nisa.nc_match_replace8"
    tile, wanted = on_chip(function, "data", data), on_chip(function, "vals", vals)
    made = fresh(tile.shape, kind_of(dtype, tile.dtype))
    rows: list[Any] = [made, tile, Along(wanted, (0, *[None] * (wanted.ndim - 1)))]
    where = optional(function, "dst_idx", dst_idx)
    rows.append(Along(where, (0, *[None] * (where.ndim - 1))) if isinstance(where, Tile) else None)
    number = float(imm)
    over(
        mask,
        tile.shape,
        rows,
        lambda d, part, v, at: isa.nc_match_replace8(d, part, v, number, at, name),
        made,
    )
    return made


def nc_stream_shuffle(
    src: Any, dst: Any, shuffle_mask: Any, *, dtype: Any = None, mask: Any = None, name: str | None = None
) -> None:
    """Partitions of ``src`` exchanged within groups of 32; see the current ``nisa.nc_stream_shuffle``."""
    del dtype
    function = "nisa.nc_stream_shuffle"
    target, tile = on_chip(function, "dst", dst), on_chip(function, "src", src)
    over(
        mask,
        tile.shape,
        [target, tile],
        lambda out, held: isa.nc_stream_shuffle(out, held, shuffle_mask, name),
    )
