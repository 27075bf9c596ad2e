"""Collectives whose counts per rank stand in a tensor: ``all_gather_v`` and ``all_to_all_v``.

Columns of the metadata are places in the rank list. A rank's own column is treated as the others are, which the
documentation leaves open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twintrack.errors import KernelError
from twintrack.neuroncore.emulator import access
from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.isa.legality.common import broken
from twintrack.neuroncore.memory.view import View

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.machine import Arrival

__all__ = ["all_gather_v", "all_to_all_v"]

_SEND_COUNTS, _SEND_DISPLS, _RECV_COUNTS, _RECV_DISPLS = range(4)
_RANKS_PER_CHIP = 4
"""Under LNC2."""


def all_gather_v(column: list[Arrival]) -> None:
    """One chunk of each rank to all."""
    ins = column[0].ins
    _require_lnc2(column)
    ranks = ins.attributes["ranks"]
    if len({rank // _RANKS_PER_CHIP for rank in ranks}) > 1:
        raise broken(
            ins, "the 4 ranks of one chip in a rank list", f"{list(ranks)}", "name ranks of one chip"
        )
    _exchange(column, alike=True)


def all_to_all_v(column: list[Arrival]) -> None:
    """A chunk of its own from each rank to each."""
    core, ins = column[0]
    ranks: tuple[int, ...] = ins.attributes["ranks"]
    if core.generation.number >= 4:
        _require_lnc2(column)
        _require_devices(ins, ranks)
    else:
        node = core.machine.ranks_per_node if core.machine is not None else 1
        if len({rank % node for rank in ranks}) > 1:
            raise broken(
                ins,
                f"ranks of the same index in nodes of {node} ranks in a rank list on {core.generation.chip}",
                f"{list(ranks)}",
                "exchange between nodes, or use all_to_all",
            )
    _exchange(column, alike=False)


def _require_lnc2(column: list[Arrival]) -> None:
    core, ins = column[0]
    if core.machine is None or core.machine.lnc < 2:
        raise broken(ins, "LNC2", "one core per rank", "run the ranks with lnc=2")


def _require_devices(ins: Instruction, ranks: tuple[int, ...]) -> None:
    """Whole devices, more than one, in sequential ranks."""
    first, size = min(ranks), len(ranks)
    whole = first % _RANKS_PER_CHIP == 0 and size % _RANKS_PER_CHIP == 0 and size > _RANKS_PER_CHIP
    if ranks != tuple(range(first, first + size)) or not whole:
        raise broken(
            ins,
            "sequential ranks of two or more whole devices (4 ranks each) in a rank list",
            f"{list(ranks)}",
            "name all ranks of each device; a rank with nothing to send has send_count 0",
        )


# the exchange


def _row(view: View, row: int, count: int) -> View:
    """The first entries of a row of the metadata."""
    offset = view.offset + row * view.strides[-2]
    return View(view.storage, view.dtype, (count,), (view.strides[-1],), offset)


def _part(view: View, start: int, count: int) -> View:
    """Elements of a dense tensor seen as flat."""
    return View(view.storage, view.dtype, (count,), (1,), view.offset + start)


def _size(view: View) -> int:
    return view.shape[0] * view.free_size


def _views(ins: Instruction) -> tuple[View, View, View]:
    src, metadata = ins.ins
    dst = ins.outs[0]
    assert src is not None  # noqa: S101 - required operands
    assert dst is not None  # noqa: S101
    assert metadata is not None  # noqa: S101
    return src, dst, metadata


def _numbers(one: Arrival, row: int, count: int) -> list[int]:
    metadata = _views(one.ins)[2]
    return [int(value) for value in one.core.read(one.ins, _row(metadata, row, count))]


def _exchange(column: list[Arrival], *, alike: bool) -> None:
    """``alike``: each rank sends the same chunk to all, named in the first column."""
    if not column[0].core.values:
        for one in column:
            _touch(one, len(column), alike=alike)
        return
    size = len(column)
    read = 1 if alike else size
    counts = [_numbers(one, _SEND_COUNTS, read) * (size if alike else 1) for one in column]
    displs = [_numbers(one, _SEND_DISPLS, read) * (size if alike else 1) for one in column]
    moved = []
    for to, receiver in enumerate(column):
        starts = _starts(receiver, size)
        for place, sender in enumerate(column):
            count = counts[place][to]
            if not count:
                continue
            source = _source(sender, displs[place][to], count)
            target = _target(receiver, starts[place], count, size, sender)
            moved.append((receiver, target, sender.core.read(sender.ins, source).copy()))
    for receiver, target, values in moved:
        access.write_raw(receiver.core, receiver.ins, target, values)
    for to, receiver in enumerate(column):
        if not receiver.ins.attributes["recv_counts_known"]:
            row = _row(_views(receiver.ins)[2], _RECV_COUNTS, size)
            received = np.array([sent[to] for sent in counts], np.uint32)
            access.write_raw(receiver.core, receiver.ins, row, received)


def _starts(receiver: Arrival, size: int) -> list[int]:
    if receiver.ins.attributes["has_rdispls"]:
        return _numbers(receiver, _RECV_DISPLS, size)
    slot = _size(_views(receiver.ins)[1]) // size
    return [slot * place for place in range(size)]


def _source(sender: Arrival, start: int, count: int) -> View:
    src = _views(sender.ins)[0]
    if start + count > _size(src):
        raise _outside(sender, f"send_displ {start} and send_count {count} inside src", src)
    return _part(src, start, count)


def _target(receiver: Arrival, start: int, count: int, size: int, sender: Arrival) -> View:
    dst = _views(receiver.ins)[1]
    room = _size(dst) - start if receiver.ins.attributes["has_rdispls"] else _size(dst) // size
    if count > room:
        raise _outside(
            receiver,
            f"at most {max(room, 0)} elements from rank {sender.core.rank}, which sends {count},",
            dst,
        )
    return _part(dst, start, count)


def _outside(one: Arrival, required: str, view: View) -> KernelError:
    found = f"{_size(view)} elements on rank {one.core.rank}"
    return broken(one.ins, required, found, "correct the counts in metadata_tensor", view)


def _touch(one: Arrival, size: int, *, alike: bool) -> None:
    """Without values: the counts must have been written, some of the source too; the destination counts as written."""
    src, dst, metadata = _views(one.ins)
    rows = [(_SEND_COUNTS, 1 if alike else size), (_SEND_DISPLS, 1 if alike else size)]
    if one.ins.attributes["has_rdispls"]:
        rows.append((_RECV_DISPLS, size))
    if one.core.checked:
        for row, count in rows:
            access.require_written(one.ins, _row(metadata, row, count))
        if src.storage.written.nothing:
            access.require_written(one.ins, src)
    one.core.wrote(dst)
    if not one.ins.attributes["recv_counts_known"]:
        one.core.wrote(_row(metadata, _RECV_COUNTS, size))
