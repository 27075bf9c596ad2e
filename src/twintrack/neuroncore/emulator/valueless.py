"""Instructions of a run without values: what they read must have been written, and what they write counts as written.

An address in a register whose value is known is followed as with values; what a register or a tile would hold that was
loaded is not known, so that any of the elements it could name is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from twintrack.neuroncore.emulator import access, accumulators
from twintrack.neuroncore.emulator.dynamic import resolve
from twintrack.neuroncore.emulator.partial import PARTIAL, touched
from twintrack.neuroncore.isa.instruction import Instruction, Register
from twintrack.neuroncore.memory.view import View

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core

__all__ = ["touch"]

_SCALED = frozenset({"nc_matmul_mx", "quantize_mx"})
_PECULIAR = _SCALED | PARTIAL | accumulators.ACCUMULATING
"""Instructions of which operands alone do not say what they read and write."""


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
            if (
                view is not None
                and (not view.storage.written.whole or view.dynamic is not None)
                and not _require_touched(core, ins, view)
            ):
                return  # nothing is read, so nothing is written
    for out in outs:
        if out is None:
            continue
        if out.dynamic is not None:
            _touch_dynamic(core, ins, out)
        else:
            access.wrote(core, out)


def _touch_dynamic(core: Core, ins: Instruction, out: View) -> None:
    """A destination at a dynamic address counts as written: where a register says, if it is known, or all of it."""
    assert out.dynamic is not None  # noqa: S101 - only such come here
    if _is_known(out.dynamic.index):
        static = _resolved(core, ins, out)
        if static is not None:
            access.wrote(core, static)
        return
    if core.checked and isinstance(out.dynamic.index, View):
        _require_touched(core, ins, out.dynamic.index)
    out.storage.modified = True
    out.storage.written.mark_all()
    if out.storage.buffer.address is not None:
        core.holding(out.storage)


def _is_known(index: Any) -> bool:
    """Whether it is a register that tells an address: one that was loaded without values does not."""
    return isinstance(index, Register) and (index.value is not None or not index.written)


def _resolved(core: Core, ins: Instruction, view: View) -> View | None:
    """The view at the index that its register holds; ``None`` where that may be out of bounds and is left out."""
    return resolve(core, ins, view, skip=ins.attributes.get("oob_mode") == "skip")


def _narrowed(ins: Instruction) -> tuple[list[View | None], list[View | None]]:
    """What is written and read: of scales of MX formats only the partitions that hold any."""
    outs, reads = list(ins.outs), list(ins.ins)
    data = reads[0]
    assert data is not None  # noqa: S101 - both instructions have it
    views, first = (outs, 1) if ins.opcode == "quantize_mx" else (reads, 2)
    for at in range(first, len(views)):
        view = views[at]
        views[at] = None if view is None else access.scale_view(view, data.shape[0])
    return outs, reads


def _require_touched(core: Core, ins: Instruction, view: View) -> bool:
    """What is read was written; ``False`` where it lies out of bounds and is left out.

    Raises:
        KernelError: if it was never written, or lies out of bounds where it may not.
    """
    written = view.storage.written
    if view.dynamic is not None:
        if _is_known(view.dynamic.index):
            static = _resolved(core, ins, view)
            return static is not None and _require_touched(core, ins, static)
        if isinstance(view.dynamic.index, View):
            _require_touched(core, ins, view.dynamic.index)
        if written.nothing and written.undefined is None:
            raise access.never_written(ins, view, view.storage, view.pattern())
    elif not written.whole:
        access.require_written(ins, view)
    return True
