"""What instructions compute that gather within SBUF, move across partitions, search and count.

Searches compare in float32, as ``max8`` is documented to; what the documentation leaves open is chosen so: NaN is
larger than every number and equals none; a value that is not found has the index of all ones in ``nc_match_replace8``
too; a position that was matched is not matched again; ``topk`` prefers the earlier of equal elements, and gives each of
the 16 partitions of a GpSimd core the result of that core.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from twintrack.neuroncore.convert import cast, round_to
from twintrack.neuroncore.emulator.access import write_raw
from twintrack.neuroncore.emulator.ops.parts import require_elements, require_snake, static
from twintrack.neuroncore.emulator.partial import every_16th, rows, shuffle
from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.isa.legality.common import broken
from twintrack.neuroncore.isa.legality.gather import CORE_PARTITIONS
from twintrack.neuroncore.memory.view import View

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core

__all__ = ["HANDLERS"]

Array = npt.NDArray[Any]


def _local_gather(core: Core, ins: Instruction) -> None:
    """In each group of 16 partitions: ``dst[:, i] = src[:, index[i] : index[i] + num_elem_per_idx]``.

    The indices of a group run down its partitions first.
    """
    (dst,), (source, index) = ins.outs, ins.ins
    assert dst is not None  # noqa: S101 - the operands of an issued instruction
    assert source is not None  # noqa: S101
    assert index is not None  # noqa: S101
    source, index = static(core, ins, source), static(core, ins, index)
    per_index, valid = ins.attributes["num_elem_per_idx"], ins.attributes["num_valid_indices"]
    count = index.free_size * CORE_PARTITIONS if valid is None else valid
    require_snake(core, ins, index, count)
    groups = index.array().reshape(-1, CORE_PARTITIONS, index.free_size)
    numbers = groups.transpose(0, 2, 1).reshape(len(groups), -1)[:, :count].astype(np.int64)
    size = source.free_size
    outside = numbers + per_index > size
    if outside.any():
        group, at = (int(i) for i in np.argwhere(outside)[0])
        partition = group * CORE_PARTITIONS + at % CORE_PARTITIONS
        _raise_outside(
            ins, index, int(numbers[group, at]), partition, at // CORE_PARTITIONS, size - per_index
        )
    wanted = (numbers[:, :, None] + np.arange(per_index)).reshape(len(groups), -1)
    wanted = np.repeat(wanted, CORE_PARTITIONS, axis=0)
    require_elements(core, ins, source, wanted)
    held = source.array().reshape(source.shape[0], -1)
    write_raw(core, ins, dst, np.take_along_axis(held, wanted, axis=1))


def _raise_outside(ins: Instruction, view: View, index: int, partition: int, element: int, last: int) -> None:
    raise broken(
        ins,
        f"indices from 0 to {last}",
        f"index {index} at partition {partition}, element {element}",
        "keep indices inside what is gathered from",
        view,
    )


def _nc_n_gather(core: Core, ins: Instruction) -> None:
    """``dst[p, i] = data[p, indices[p, i]]``, free dimensions as one."""
    (dst,), (data, indices) = ins.outs, ins.ins
    assert dst is not None  # noqa: S101
    assert data is not None  # noqa: S101
    assert indices is not None  # noqa: S101
    data = static(core, ins, data)
    numbers = core.read(ins, indices).reshape(indices.shape[0], -1).astype(np.int64)
    outside = numbers >= data.free_size
    if outside.any():
        partition, at = (int(i) for i in np.argwhere(outside)[0])
        _raise_outside(ins, indices, int(numbers[partition, at]), partition, at, data.free_size - 1)
    require_elements(core, ins, data, numbers)
    held = data.array().reshape(data.shape[0], -1)
    write_raw(core, ins, dst, np.take_along_axis(held, numbers, axis=1))


def _nc_stream_shuffle(core: Core, ins: Instruction) -> None:
    """``dst[q + i] = src[q + shuffle_mask[i]]`` in each quadrant from ``q``; 255 keeps what is there."""
    (dst,), (source,) = ins.outs, ins.ins
    assert dst is not None  # noqa: S101
    assert source is not None  # noqa: S101
    dst, source = static(core, ins, dst), static(core, ins, source)
    plan = shuffle(ins.attributes["shuffle_mask"], dst.shape[0])
    for run in plan.reads:
        core.read(ins, rows(source, *run))
    held = source.array().reshape(source.shape[0], -1)[list(plan.sources)]  # a copy, so that dst may be src
    start = 0
    for first, count in plan.writes:
        write_raw(core, ins, rows(dst, first, count), held[start : start + count])
        start += count


def _max8(core: Core, ins: Instruction) -> None:
    """The 8 largest of each partition, the largest first."""
    (dst,), (source,) = ins.outs, ins.ins
    assert dst is not None  # noqa: S101
    assert source is not None  # noqa: S101
    values = core.read32(ins, source).reshape(source.shape[0], -1)
    largest = np.sort(np.partition(values, -8, axis=1)[:, -8:], axis=1)[:, ::-1]
    core.write(ins, dst, largest)


def _matches(values: Array, wanted: Array, order: range) -> tuple[Array, Array]:
    """For each wanted value, taken in this order, the first position that holds it and that no other has taken.

    Args:
        values: shape ``(partitions, n)``.
        wanted: shape ``(partitions, 8)``.
        order: of the columns of ``wanted``.

    Returns:
        Positions, shape ``(partitions, 8)``, -1 where there is none; and which of ``values`` were taken.
    """
    found = np.full(wanted.shape, -1, np.int64)
    taken = np.zeros(values.shape, np.bool_)
    for column in order:
        same = values == wanted[:, column : column + 1]
        same &= ~taken
        first = same.argmax(axis=1)
        lanes = np.flatnonzero(same.any(axis=1))
        found[lanes, column] = first[lanes]
        taken[lanes, first[lanes]] = True
    return found, taken


def _as_indices(found: Array, dtype: Any) -> Array:
    """Positions as unsigned integers; all ones where there is none."""
    return np.where(found < 0, np.iinfo(dtype.stored).max, found).astype(dtype.stored)


def _nc_find_index8(core: Core, ins: Instruction) -> None:
    """``dst[p, i]`` is where ``vals[p, i]`` stands first; equal values have the next positions, ascending."""
    (dst,), (data, vals) = ins.outs, ins.ins
    assert dst is not None  # noqa: S101
    assert data is not None  # noqa: S101
    assert vals is not None  # noqa: S101
    values = core.read32(ins, data).reshape(data.shape[0], -1)
    wanted = core.read32(ins, vals).reshape(vals.shape[0], 8)
    found, _ = _matches(values, wanted, range(8))
    write_raw(core, ins, dst, _as_indices(found, dst.dtype))


def _nc_match_replace8(core: Core, ins: Instruction) -> None:
    """``dst`` is ``data`` with the first position of each of ``vals`` replaced; equal ones from the last backwards."""
    (dst, dst_idx), (data, vals) = ins.outs, ins.ins
    assert dst is not None  # noqa: S101
    assert data is not None  # noqa: S101
    assert vals is not None  # noqa: S101
    held = core.read(ins, data)
    values = core.read32(ins, data).reshape(data.shape[0], -1)
    wanted = core.read32(ins, vals).reshape(vals.shape[0], 8)
    found, taken = _matches(values, wanted, range(7, -1, -1))
    imm = round_to(np.array([ins.attributes["imm"]], np.float32), dst.dtype, precise=core.precise)
    kept = cast(held, data.dtype, dst.dtype, precise=core.precise).reshape(taken.shape)
    write_raw(core, ins, dst, np.where(taken, imm, kept))
    if dst_idx is not None:
        write_raw(core, ins, dst_idx, _as_indices(found, dst_idx.dtype))


def _nonzero_with_count(core: Core, ins: Instruction) -> None:
    """Indices of what is not 0, then padding, then their count; on partitions 0, 16, 32, ... only."""
    (dst,), (source,) = ins.outs, ins.ins
    assert dst is not None  # noqa: S101
    assert source is not None  # noqa: S101
    source = every_16th(static(core, ins, source))
    count = source.shape[0]
    values = core.read(ins, source).reshape(count, -1)
    result = np.full((count, values.shape[1] + 1), ins.attributes["padding_val"], np.int64)
    for lane, row in enumerate(values):
        found = np.flatnonzero(row)
        result[lane, : len(found)] = found + ins.attributes["index_offset"]
        result[lane, -1] = len(found)
    # 32-bit integers that wrap around
    write_raw(core, ins, every_16th(static(core, ins, dst)), result.astype(np.int32))


def _topk(core: Core, ins: Instruction) -> None:
    """In each group of 16 partitions the largest of its first ``n`` elements, ascending, and their numbers."""
    (val_dst, idx_dst), (source,) = ins.outs, ins.ins
    assert val_dst is not None  # noqa: S101
    assert idx_dst is not None  # noqa: S101
    assert source is not None  # noqa: S101
    source = static(core, ins, source)
    n, k = ins.attributes["n"], val_dst.free_size
    require_snake(core, ins, source, n)
    held = source.array().reshape(-1, CORE_PARTITIONS, source.free_size)
    snakes = held.transpose(0, 2, 1).reshape(len(held), -1)[:, :n]
    numbers = snakes.astype(np.float32)
    order = np.argsort(-numbers, axis=1, kind="stable")  # NaN come last
    nans = np.isnan(numbers).sum(axis=1)
    order = np.stack([np.roll(row, int(many)) for row, many in zip(order, nans, strict=True)])
    largest = order[:, :k][:, ::-1]
    write_raw(core, ins, val_dst, _per_partition(np.take_along_axis(snakes, largest, axis=1)))
    write_raw(core, ins, idx_dst, _per_partition(largest.astype(np.uint32)))


def _per_partition(values: Array) -> Array:
    """The results of the cores, each for all of its partitions."""
    return np.repeat(values, CORE_PARTITIONS, axis=0)


HANDLERS: Mapping[str, Callable[[Core, Instruction], None]] = MappingProxyType(
    {
        "local_gather": _local_gather,
        "nc_n_gather": _nc_n_gather,
        "nc_stream_shuffle": _nc_stream_shuffle,
        "max8": _max8,
        "nc_find_index8": _nc_find_index8,
        "nc_match_replace8": _nc_match_replace8,
        "nonzero_with_count": _nonzero_with_count,
        "topk": _topk,
    }
)
"""By opcode."""
