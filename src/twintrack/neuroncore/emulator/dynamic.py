"""Addresses that are known only when an instruction runs, and their bounds.

A scalar index moves a whole view, a vector of indices gathers or scatters rows of HBM, tensor indirection
(NeuronCore-v4) names columns of a tile per group of partitions. An index out of bounds is an error, or what it names is
left out where the instruction says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from twintrack.errors import KernelError
from twintrack.neuroncore.isa.instruction import Instruction, Register
from twintrack.neuroncore.isa.legality.common import broken
from twintrack.neuroncore.isa.legality.indirection import group_partitions
from twintrack.neuroncore.memory.view import Dynamic, View
from twintrack.neuroncore.memory.written import Pattern, pattern_of

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core

__all__ = ["Integers", "columns", "index_of", "resolve", "rows", "within"]

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]


def index_of(core: Core, ins: Instruction, index: View | Register) -> int:
    """The one index of a scalar dynamic address.

    Raises:
        KernelError: if the register, or the element that holds the index, was never written.
    """
    if isinstance(index, Register):
        if not isinstance(index.value, int):
            raise broken(
                ins,
                "a register with an integer as an address",
                f"register {index.number} (made at {index.line}) "
                + ("never written" if index.value is None else f"holds {index.value}"),
                "write an integer to it first with nisa.register_move or nisa.register_load",
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
    if 0 <= index < dynamic.limit and _fits(view, offset):
        return View(view.storage, view.dtype, view.shape, view.strides, offset)
    if skip:
        return None
    raise _out_of_bounds(ins, view, index)


def _fits(view: View, offset: int) -> bool:
    """Whether the view's elements lie in its buffer, and on chip in its partitions, from another offset."""
    spans = [(count - 1) * step for step, count in zip(view.strides, view.shape, strict=True)]
    low = offset + sum(span for span in spans if span < 0)
    high = offset + sum(span for span in spans if span > 0)
    if low < 0 or high * view.dtype.bytes >= view.storage.buffer.bytes:
        return False
    if not view.storage.buffer.on_chip:
        return True
    free = sum(span for span in spans[1:] if span > 0)
    return offset // view.row == view.offset // view.row and offset % view.row + free < view.row


def _out_of_bounds(ins: Instruction, view: View, index: int, row: int | None = None) -> KernelError:
    assert view.dynamic is not None  # noqa: S101 - only dynamic views come here
    which = "" if row is None else f" for row {row}"
    skip = ins.opcode.startswith("dma_") and view.dynamic.kind != "tensor"
    required, found = f"from 0 below {view.dynamic.limit}", f"index {index}{which}"
    if view.dynamic.kind == "scalar":
        required, found = _extent(view, view.dynamic, index)
    return broken(
        ins,
        f"a dynamic index {required} in dimension {view.dynamic.dim}",
        found,
        "keep the index inside" + (", or pass oob_mode=nisa.oob_mode.skip" if skip else ""),
        view,
    )


def _extent(view: View, dynamic: Dynamic, index: int) -> tuple[str, str]:
    """Which indices keep the whole view inside, and how this one does not."""
    limit = dynamic.limit
    inside = [at for at in (0, limit - 1) if _fits(view, view.offset + at * dynamic.stride)]
    if len(inside) == 2:  # the view adds nothing to the index
        return f"from 0 below {limit}", f"index {index}"
    good = [at for at in range(limit) if _fits(view, view.offset + at * dynamic.stride)]
    allowed = f"from {good[0]} to {good[-1]}" if good else "for which the view fits, of which there is none,"
    covered = _steps(view, dynamic)
    if 0 <= index < limit < index + covered:
        what = "rows" if dynamic.dim == 0 else "elements"
        return (
            allowed,
            f"index {index} and the {covered} {what} from it, which end at {index + covered} of {limit},",
        )
    if 0 <= index < limit:
        return allowed, f"index {index}, from which the view leaves the {limit} of that dimension,"
    return allowed, f"index {index}"


def _steps(view: View, dynamic: Dynamic) -> int:
    """Steps of the index that the view covers in the dimension that it counts in."""
    step = abs(dynamic.stride)
    if not step:
        return 1
    return 1 + sum(
        (count - 1) * stride // step
        for stride, count in zip(view.strides, view.shape, strict=True)
        if stride > 0 and stride % step == 0 and stride < step * dynamic.limit
    )


def rows(core: Core, ins: Instruction, view: View, *, skip: bool) -> tuple[Integers, Pattern, Array]:
    """First elements of a vector view's rows, the pattern in bytes of a row from there, and which rows are inside."""
    dynamic = view.dynamic
    assert dynamic is not None  # noqa: S101 - only vector views come here
    held = core.read(ins, dynamic.index)
    indices = held.reshape(held.shape[0], -1).T.reshape(-1)[: view.shape[0]].astype(np.int64)
    # the row's own stride is replaced by the index: each row starts where its index says
    starts = view.offset + indices * dynamic.stride
    spans = [(count - 1) * step for step, count in zip(view.strides[1:], view.shape[1:], strict=True)]
    low, high = sum(span for span in spans if span < 0), sum(span for span in spans if span > 0)
    room = view.storage.buffer.bytes // view.dtype.bytes
    good = (indices >= 0) & (indices < dynamic.limit) & (starts + low >= 0) & (starts + high < room)
    if not skip and not good.all():
        row = int(np.argmin(good))
        raise _out_of_bounds(ins, view, int(indices[row]), row)
    return starts, pattern_of(view.shape[1:], view.strides[1:], 0, view.dtype.bytes), good


def columns(core: Core, ins: Instruction, view: View) -> Integers:
    """Element numbers of a view with tensor indirection, ``(partitions, offsets)``.

    Offset ``i`` of a group of G partitions is ``index[i % G, i // G]`` of the group's own rows of the index.
    """
    dynamic = view.dynamic
    assert dynamic is not None  # noqa: S101 - only such views come here
    partitions, count = view.shape
    group = group_partitions(ins, view)
    used = View(
        dynamic.index.storage,
        dynamic.index.dtype,
        (dynamic.index.shape[0], -(-count // group)),
        dynamic.index.strides,
        dynamic.index.offset,
    )
    held = core.read(ins, used).astype(np.int64).reshape(partitions // group, group, -1)
    offsets = held.transpose(0, 2, 1).reshape(partitions // group, -1)[:, :count]
    bad = (offsets < 0) | (offsets >= dynamic.limit)
    if bad.any():
        at, column = (int(one) for one in np.argwhere(bad)[0])
        raise _out_of_bounds(ins, view, int(offsets[at, column]))
    firsts = view.offset + np.arange(partitions, dtype=np.int64) * view.strides[0]
    return firsts[:, None] + np.repeat(offsets, group, axis=0) * dynamic.stride


def within(view: View) -> Integers:
    """Elements of a row of dimension 0, from its first."""
    found = np.zeros((1,), np.int64)
    for step, count in zip(view.strides[1:], view.shape[1:], strict=True):
        found = (found[:, None] + np.arange(count, dtype=np.int64) * step).reshape(-1)
    return found
