"""How handlers reach memory: bounds, what was never written, dynamic addresses, the one rounding of a write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from twintrack.errors import KernelError
from twintrack.neuroncore.convert import round_to, to_float32
from twintrack.neuroncore.isa.instruction import Instruction, Register
from twintrack.neuroncore.isa.legality.common import broken, name_of
from twintrack.neuroncore.memory.dtypes import DType
from twintrack.neuroncore.memory.storage import Storage
from twintrack.neuroncore.memory.view import View
from twintrack.neuroncore.memory.written import Pattern

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core

__all__ = [
    "index_of",
    "read_dynamic",
    "require_written",
    "resolve",
    "single",
    "touch",
    "write",
    "write_raw",
    "wrote",
]

Array = npt.NDArray[Any]


def single(held: Array, dtype: DType) -> npt.NDArray[np.float32]:
    """Elements as float32; the same array where they already are."""
    return held if held.dtype == np.float32 else to_float32(held, dtype)


# reading


def require_written(ins: Instruction, view: View) -> None:
    """Raise where the view covers elements that were never written, or that another placed buffer destroyed."""
    storage = view.storage
    pattern = view.pattern()
    if storage.written.covers(pattern):
        return
    if storage.clobbered is not None:
        raise broken(
            ins,
            "a buffer that still holds what was written to it",
            f"that {storage.clobbered!r}, placed over it, was written since,",
            "give them addresses that do not overlap, or finish with the first before writing the second",
            view,
        )
    raise _never_written(ins, view, storage, pattern)


def _never_written(ins: Instruction, view: View, storage: Storage, pattern: Pattern) -> KernelError:
    first = storage.written.first_missing(pattern)
    buffer = storage.buffer
    at = np.unravel_index(first // buffer.dtype.bytes, buffer.shape)
    share = "nothing of it" if storage.written.nothing else f"element {[int(i) for i in at]} of it"
    return broken(
        ins,
        f"{name_of(ins, view)} written before it is read",
        f"{share} was never written: it holds whatever was there before, not what was meant,"
        if storage.written.nothing
        else f"{share} never written",
        "write all of it first (nisa.memset, nisa.dma_copy), or read only what was written",
        view,
    )


def index_of(core: Core, ins: Instruction, index: View | Register) -> int:
    """The one index of a scalar dynamic address.

    Raises:
        KernelError: if the register, or the element that holds the index, was never written.
    """
    if isinstance(index, Register):
        if index.value is None:
            raise broken(
                ins,
                "a register with a value as an address",
                f"register {index.number} (made at {index.line}) never written",
                "write it first with nisa.register_move or nisa.register_load",
            )
        return index.value
    return int(core.read(ins, index).reshape(-1)[0])


def resolve(core: Core, ins: Instruction, view: View, *, skip: bool = False) -> View | None:
    """The static view that a scalar dynamic one means now; ``None`` where it is out of bounds and may be skipped."""
    dynamic = view.dynamic
    if dynamic is None:
        return view
    index = index_of(core, ins, dynamic.index)
    offset = view.offset + index * dynamic.stride
    last = offset + sum((count - 1) * step for step, count in zip(view.strides, view.shape, strict=True))
    buffer = view.storage.buffer
    if index < 0 or offset < 0 or last * view.dtype.bytes >= buffer.bytes or index >= dynamic.limit:
        if skip:
            return None
        raise _out_of_bounds(ins, view, index)
    return View(view.storage, view.dtype, view.shape, view.strides, offset)


def _out_of_bounds(ins: Instruction, view: View, index: int, row: int | None = None) -> KernelError:
    assert view.dynamic is not None  # noqa: S101 - only dynamic views come here
    which = "" if row is None else f" for row {row}"
    return broken(
        ins,
        f"a dynamic index from 0 below {view.dynamic.limit} in dimension {view.dynamic.dim}",
        f"index {index}{which}",
        "keep the index inside, or pass oob_mode=nisa.oob_mode.skip to nisa.dma_copy",
        view,
    )


def _rows(core: Core, ins: Instruction, view: View, *, skip: bool) -> tuple[Array, Array]:
    """Flat element numbers of a vector dynamic view, and which of its rows are inside."""
    dynamic = view.dynamic
    assert dynamic is not None  # noqa: S101 - only vector views come here
    indices = core.read(ins, dynamic.index).reshape(-1)[: view.shape[0]].astype(np.int64)
    inner = np.zeros((1,), np.int64)
    for step, count in zip(view.strides[1:], view.shape[1:], strict=True):
        inner = (inner[:, None] + np.arange(count, dtype=np.int64) * step).reshape(-1)
    # the row's own stride is replaced by the index: each row starts where its index says
    starts = view.offset + indices * dynamic.stride
    size = view.storage.buffer.bytes // view.dtype.bytes
    last = starts + (inner[-1] if len(inner) else 0)
    good = (indices >= 0) & (indices < dynamic.limit) & (last < size) & (starts >= 0)
    if not good.all() and not skip:
        row = int(np.argmin(good))
        raise _out_of_bounds(ins, view, int(indices[row]), row)
    return starts[:, None] + inner[None, :], good


def read_dynamic(core: Core, ins: Instruction, view: View, *, skip: bool = False) -> Array:
    """Elements at an address that is known only now, in the view's shape, as they are held.

    With ``skip``, rows whose index is out of bounds are returned as zeros; ``dma`` leaves their destination alone.
    """
    assert view.dynamic is not None  # noqa: S101 - only dynamic views come here
    if view.dynamic.kind == "scalar":
        static = resolve(core, ins, view, skip=skip)
        if static is None:
            return np.zeros(view.shape, view.storage.kind(view.dtype))
        return core.read(ins, static)
    numbers, good = _rows(core, ins, view, skip=skip)
    _require_rows_written(core, ins, view, numbers, good)
    flat = _flat(view)
    found = flat[np.where(good[:, None], numbers, 0)]
    return found.reshape(view.shape)


def _require_rows_written(core: Core, ins: Instruction, view: View, numbers: Array, good: Array) -> None:
    written = view.storage.written
    if written.whole or not core.checked:
        return
    size = view.dtype.bytes
    for row, inside in zip(numbers, good, strict=True):
        span = ((int(row[0]) * size, (), (int(row[-1]) - int(row[0]) + 1) * size)) if len(row) else None
        if inside and span is not None and not written.covers(span):
            raise _never_written(ins, view, view.storage, span)


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
    dtype = view.dtype
    held = values if not core.precise and dtype.is_float else round_to(values, dtype)
    write_raw(core, ins, view, held)


def write_raw(core: Core, ins: Instruction, view: View, held: Array, *, skip: bool = False) -> None:
    """Write elements that are already of the destination's type."""
    if view.dynamic is None:
        view.array()[...] = held if held.shape == view.shape else held.reshape(view.shape)
        wrote(core, view)
        return
    if view.dynamic.kind == "scalar":
        static = resolve(core, ins, view, skip=skip)
        if static is not None:
            write_raw(core, ins, static, held)
        return
    numbers, good = _rows(core, ins, view, skip=skip)
    rows = np.ascontiguousarray(held).reshape(numbers.shape)
    _flat(view)[numbers[good]] = rows[good]
    size = view.dtype.bytes
    view.storage.modified = True
    for row in numbers[good]:
        span = int(row[-1]) - int(row[0]) + 1
        if span == len(row):
            view.storage.written.mark((int(row[0]) * size, (), span * size))
        else:
            for number in row:
                view.storage.written.mark((int(number) * size, (), size))


def wrote(core: Core, view: View, *, matmul: bool = False) -> None:
    """Note that a static view was written."""
    storage = view.storage
    storage.modified = True
    written = storage.written
    whole = view.covers_buffer()
    if not written.whole:
        if whole:
            written.mark_all()
        else:
            written.mark(view.pattern())
    if storage.matmul is not None and not matmul:
        storage.matmul.clear(None if whole else view.pattern())
    if core.placed and storage.buffer.address is not None:
        _clobber(core, view)


def _clobber(core: Core, view: View) -> None:
    """What is written to a placed buffer destroys what others hold at the same partitions and bytes."""
    mine = view.storage.buffer
    assert mine.address is not None  # noqa: S101 - only placed buffers come here
    first = view.start_partition
    size = view.dtype.bytes
    row_bytes = mine.partition_bytes
    low = (view.offset * size) % row_bytes if row_bytes else 0
    span = sum((count - 1) * step for step, count in zip(view.strides[1:], view.shape[1:], strict=True))
    low, high = low + mine.address[1], low + mine.address[1] + (span + 1) * size
    for other in core.placed:
        theirs = other.buffer
        if other is view.storage or other.written.nothing or theirs.region is not mine.region:
            continue
        assert theirs.address is not None  # noqa: S101 - the list holds placed buffers
        row, byte = theirs.address
        rows = range(max(first, row), min(first + view.shape[0], row + theirs.shape[0]))
        start, end = max(low, byte), min(high, byte + theirs.partition_bytes)
        if len(rows) and start < end:
            at = (rows[0] - row) * theirs.partition_bytes + start - byte
            other.written.clear((at, ((theirs.partition_bytes, len(rows)),), end - start))
            other.clobbered = mine


# without values


def touch(core: Core, ins: Instruction) -> None:
    """Without values: what the instruction reads must have been written, and what it writes counts as written."""
    if core.checked:
        for view in ins.ins:
            if view is None:
                continue
            written = view.storage.written
            if written.whole:
                continue
            if view.dynamic is None:
                require_written(ins, view)
            elif written.nothing:
                raise _never_written(ins, view, view.storage, view.pattern())
    for out in ins.outs:
        if out is None:
            continue
        if out.dynamic is not None:
            out.storage.written.mark_all()
        else:
            wrote(core, out)
    for register in ins.registers:
        if ins.opcode == "register_load":
            register.value, register.known = None, False
