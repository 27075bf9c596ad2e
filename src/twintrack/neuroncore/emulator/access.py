"""How handlers reach memory: what was never written, dynamic addresses, the one rounding of a write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from twintrack.errors import KernelError
from twintrack.neuroncore.convert import round_to, to_float32
from twintrack.neuroncore.emulator import accumulators
from twintrack.neuroncore.emulator.dynamic import Integers, columns, resolve, rows, within
from twintrack.neuroncore.emulator.microscaling import scale_partitions
from twintrack.neuroncore.emulator.partial import PARTIAL, touched
from twintrack.neuroncore.isa.instruction import Instruction, Register
from twintrack.neuroncore.isa.legality.common import broken, name_of
from twintrack.neuroncore.memory.dtypes import DType
from twintrack.neuroncore.memory.storage import Storage
from twintrack.neuroncore.memory.view import Dynamic, View
from twintrack.neuroncore.memory.written import Pattern

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core

__all__ = [
    "read_columns",
    "read_dynamic",
    "read_inside",
    "require_written",
    "resolve",
    "scale_view",
    "single",
    "touch",
    "write",
    "write_raw",
    "wrote",
]

Array = npt.NDArray[Any]
_SCALED = frozenset({"nc_matmul_mx", "quantize_mx"})
_PECULIAR = _SCALED | PARTIAL | accumulators.ACCUMULATING
"""Instructions of which operands alone do not say what they read and write."""
_QUADRANT = 32
_SCALES = 4
"""Partitions with scales in a quadrant: one for each 8 partitions of data."""


def single(held: Array, dtype: DType) -> npt.NDArray[np.float32]:
    """Elements as float32; the same array where they already are."""
    return held if held.dtype == np.float32 else to_float32(held, dtype)


# reading


def require_written(ins: Instruction, view: View) -> None:
    """Raise where the view covers elements that were never written, or that another placed buffer destroyed."""
    pattern = view.pattern()
    if not view.storage.written.covers(pattern):
        raise _not_there(ins, view, pattern)


def _not_there(ins: Instruction, view: View, pattern: Pattern) -> KernelError:
    """The error of bytes that do not hold what was meant."""
    storage = view.storage
    if storage.clobbered is not None:
        return broken(
            ins,
            f"{name_of(ins, view)} that still holds what was written to it",
            f"it overwritten by {storage.clobbered!r}, which is placed over it,",
            "give them addresses that do not overlap, or finish with one before writing the other",
            view,
        )
    return _never_written(ins, view, storage, pattern)


def _never_written(ins: Instruction, view: View, storage: Storage, pattern: Pattern) -> KernelError:
    first = storage.written.first_missing(pattern)
    buffer = storage.buffer
    at = np.unravel_index(first // buffer.dtype.bytes, buffer.shape)
    return broken(
        ins,
        f"{name_of(ins, view)} written before it is read",
        "nothing written" if storage.written.nothing else f"element {[int(i) for i in at]} never written",
        "write all of it first (nisa.memset, nisa.dma_copy), or read only what was written",
        view,
    )


def read_dynamic(core: Core, ins: Instruction, view: View) -> Array:
    """Elements at an address that is known only now, in the view's shape, as they are held.

    Raises:
        KernelError: if an index is out of bounds, or what it names was never written.
    """
    return read_inside(core, ins, view, skip=False)[0]


def read_inside(core: Core, ins: Instruction, view: View, *, skip: bool) -> tuple[Array, Array | None]:
    """A view's elements, and where some of them are out of bounds and may be skipped, which are not.

    Returns:
        The elements in the view's shape, zero where skipped; and booleans of the view's shape, ``None`` for all.
    """
    dynamic = view.dynamic
    if dynamic is None:
        return core.read(ins, view), None
    if dynamic.kind == "scalar":
        static = resolve(core, ins, view, skip=skip)
        if static is None:
            return np.zeros(view.shape, view.storage.kind(view.dtype)), np.zeros(view.shape, np.bool_)
        return core.read(ins, static), None
    flat, size = _flat(view), view.dtype.bytes
    if dynamic.kind == "tensor":
        numbers = columns(core, ins, view)
        _require_rows_written(core, ins, view, numbers.reshape(-1) * size, (0, (), size))
        return flat[numbers], None
    starts, inner, good = rows(core, ins, view, skip=skip)
    _require_rows_written(core, ins, view, starts[good] * size, inner)
    found = flat[np.where(good, starts, 0)[:, None] + within(view)[None, :]]
    if good.all():
        return found.reshape(view.shape), None
    found[~good] = 0
    return found.reshape(view.shape), np.repeat(good, found.shape[1]).reshape(view.shape)


def _require_rows_written(core: Core, ins: Instruction, view: View, starts: Integers, inner: Pattern) -> None:
    written = view.storage.written
    if written.whole or not core.checked:
        return
    there = written.covers_rows(starts, inner)
    if not there.all():
        raise _not_there(ins, view, (int(starts[int(np.argmin(there))]), inner[1], inner[2]))


def _flat(view: View) -> Array:
    held = view.storage.data
    assert held is not None  # noqa: S101 - handlers run only with values
    return held.view(view.storage.kind(view.dtype))


# writing


def write(core: Core, ins: Instruction, view: View, values: Array) -> None:
    """Round results to the destination's type, once, and write them.

    Args:
        core: whose memory.
        ins: for messages.
        view: the destination.
        values: float32 or integers; as many elements per partition as the destination has.
    """
    write_raw(core, ins, view, round_to(values, view.dtype, precise=core.precise))


def write_raw(
    core: Core, ins: Instruction, view: View, held: Array, *, skip: bool = False, where: Array | None = None
) -> None:
    """Write elements that are already of the destination's type.

    Args:
        core: whose memory.
        ins: for messages.
        view: the destination.
        held: as many elements as it has.
        skip: leave out what a dynamic index puts out of bounds.
        where: booleans of the shape of ``held``; the other elements keep what they hold.
    """
    dynamic = view.dynamic
    if dynamic is None:
        held = held if held.shape == view.shape else held.reshape(view.shape)
        if where is None:
            view.array()[...] = held
            wrote(core, view)
        else:
            _write_where(core, view, held, where.reshape(view.shape))
        return
    if dynamic.kind == "scalar":
        static = resolve(core, ins, view, skip=skip)
        if static is not None:
            write_raw(core, ins, static, held, where=where)
        return
    flat, size = _flat(view), view.dtype.bytes
    inner: Pattern = (0, (), size)
    if dynamic.kind == "tensor":
        numbers = columns(core, ins, view)
        starts = numbers.reshape(-1)
    else:
        starts, inner, good = rows(core, ins, view, skip=skip)
        numbers = starts[:, None] + within(view)[None, :]
        if not good.all():
            numbers, starts = numbers[good], starts[good]
            held = held.reshape(len(good), -1)[good]
            where = None if where is None else where.reshape(len(good), -1)[good]
    held = held.reshape(numbers.shape)
    if where is not None:
        chosen = where.reshape(numbers.shape)
        numbers, held = numbers[chosen], held[chosen]
        starts, inner = numbers, (0, (), size)
    flat[numbers] = held  # as many times as an index repeats; the last one stays
    _wrote_rows(core, view, starts * size, inner)


def _write_where(core: Core, view: View, held: Array, where: Array) -> None:
    if where.all():
        view.array()[...] = held
        wrote(core, view)
        return
    np.copyto(view.array(), held, where=where)
    storage = view.storage
    place = (view.shape, view.strides, view.offset, view.dtype.bytes)
    storage.modified = True
    storage.written.mark_where(*place, where)
    if storage.matmul is not None and where.any():
        storage.matmul.clear(view.pattern())
    if storage.buffer.address is not None:
        _clobber(core, view)


def _wrote_rows(core: Core, view: View, starts: Integers, inner: Pattern) -> None:
    storage = view.storage
    storage.modified = True
    storage.written.mark_rows(starts, inner)
    if storage.matmul is not None:
        storage.matmul.clear_rows(starts, inner)
    if storage.buffer.address is not None:
        size = view.dtype.bytes
        for start in starts // size:
            _clobber(core, View(storage, view.dtype, (1, 1), (view.row, 1), int(start)))


def wrote(core: Core, view: View, *, matmul: bool = False) -> None:
    """Note that a static view was written, by a matrix multiplication or otherwise."""
    storage = view.storage
    storage.modified = True
    written = storage.written
    if not written.whole:
        if view.covers_buffer():
            written.mark_all()
        else:
            written.mark(view.pattern())
    if storage.matmul is not None and not matmul:
        storage.matmul.clear(None if view.covers_buffer() else view.pattern())
    if storage.buffer.address is not None:
        _clobber(core, view)


def _clobber(core: Core, view: View) -> None:
    """What is written to a placed buffer destroys what others hold at the same partitions and bytes."""
    mine = view.storage.buffer
    first = view.start_partition
    span = sum((count - 1) * abs(step) for step, count in zip(view.strides[1:], view.shape[1:], strict=True))
    low = view.start_byte
    high = low + (span + 1) * view.dtype.bytes
    holding = core.holding(view.storage)
    for other in tuple(holding.values()) if len(holding) > 1 else ():
        theirs = other.buffer
        if other is view.storage:
            continue
        assert theirs.address is not None  # noqa: S101 - only placed buffers are looked at
        row, byte = theirs.address
        rows = range(max(first, row), min(first + view.shape[0], row + theirs.shape[0]))
        start, end = max(low, byte), min(high, byte + theirs.partition_bytes)
        if not len(rows) or start >= end:
            continue
        other.clobbered = mine
        if len(rows) == theirs.shape[0] and end - start == theirs.partition_bytes:
            other.written.clear()
            del holding[id(other)]
        else:
            at = (rows[0] - row) * theirs.partition_bytes + start - byte
            other.written.clear((at, ((theirs.partition_bytes, len(rows)),), end - start))


# without values


def touch(core: Core, ins: Instruction) -> None:
    """Without values: what the instruction reads must have been written, and what it writes counts as written."""
    outs: Sequence[View | None] = ins.outs
    reads: Sequence[View | None] = ins.ins
    if ins.opcode in _PECULIAR:
        if ins.opcode in _SCALED:
            outs, reads = _narrowed(ins)
        elif ins.opcode in PARTIAL:
            outs, reads = touched(ins)
        elif core.checked:
            accumulators.follow(core, ins)
    if core.checked:
        for view in reads:
            if view is not None and (not view.storage.written.whole or view.dynamic is not None):
                _require_touched(core, ins, view)
    if "oob_mode" in ins.attributes and _left_out(core, ins):
        return
    for out in outs:
        if out is None:
            continue
        if out.dynamic is not None and _is_known(core, out.dynamic):
            static = resolve(core, ins, out, skip=_skips(ins))
            if static is not None:
                wrote(core, static)
        elif out.dynamic is not None:
            if core.checked and isinstance(out.dynamic.index, View):
                _require_touched(core, ins, out.dynamic.index)
            out.storage.modified = True
            out.storage.written.mark_all()
            if out.storage.buffer.address is not None:
                core.holding(out.storage)
        else:
            wrote(core, out)


def _narrowed(ins: Instruction) -> tuple[list[View | None], list[View | None]]:
    """What is written and read: of scales of MX formats only the partitions that hold any."""
    outs, reads = list(ins.outs), list(ins.ins)
    data = reads[0]
    assert data is not None  # noqa: S101 - both instructions have it
    views, first = (outs, 1) if ins.opcode == "quantize_mx" else (reads, 2)
    for at in range(first, len(views)):
        view = views[at]
        views[at] = None if view is None else scale_view(view, data.shape[0])
    return outs, reads


def _is_known(core: Core, dynamic: Dynamic) -> bool:
    """Whether the address is told by a register whose value is known without values too.

    One that was never written counts: it is an error with values and without. Where the caller assumed how often a
    loop runs, its index says nothing of the addresses that a run with values would reach.
    """
    index = dynamic.index
    if dynamic.kind != "scalar" or not isinstance(index, Register) or core.trips_taken:
        return False
    return index.value is not None or not index.written


def _skips(ins: Instruction) -> bool:
    return ins.attributes.get("oob_mode") == "skip"


def _left_out(core: Core, ins: Instruction) -> bool:
    """Whether a DMA that skips what is out of bounds has nothing to write, as its source is."""
    return _skips(ins) and any(
        view is not None
        and view.dynamic is not None
        and _is_known(core, view.dynamic)
        and resolve(core, ins, view, skip=True) is None
        for view in ins.ins
    )


def _require_touched(core: Core, ins: Instruction, view: View) -> None:
    written = view.storage.written
    if view.dynamic is not None and _is_known(core, view.dynamic):
        static = resolve(core, ins, view, skip=_skips(ins))
        if static is not None and not written.whole:
            require_written(ins, static)
        return
    if view.dynamic is not None:
        if isinstance(view.dynamic.index, View):
            _require_touched(core, ins, view.dynamic.index)
        if written.nothing and written.undefined is None:
            raise _never_written(ins, view, view.storage, view.pattern())
    elif not written.whole:
        require_written(ins, view)


def scale_view(scale: View, partitions: int) -> View:
    """The scales of MX data of so many partitions: the first four partitions of each quadrant, from the view's first.

    Args:
        scale: a tile of scales.
        partitions: of the data; a multiple of 32.
    """
    step = scale.strides[0]
    shape = (partitions // _QUADRANT, _SCALES, *scale.shape[1:])
    strides = (step * _QUADRANT, step, *scale.strides[1:])
    return View(scale.storage, scale.dtype, shape, strides, scale.offset, scale.dynamic)


def read_columns(core: Core, ins: Instruction, scale: View, partitions: int) -> Array:
    """The scales of MX data of so many partitions, of a tile with tensor indirection, ``(groups, offsets)``.

    Raises:
        KernelError: if an index is out of bounds, or a scale was never written.
    """
    numbers = columns(core, ins, scale)[scale_partitions(partitions)]
    size = scale.dtype.bytes
    _require_rows_written(core, ins, scale, numbers.reshape(-1) * size, (0, (), size))
    return np.asarray(_flat(scale)[numbers])
