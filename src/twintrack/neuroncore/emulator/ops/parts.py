"""Parts of operands: rows of a view, and whether single elements of one were written.

For instructions that touch less than the whole of an operand, so that they read, check and mark just that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from twintrack.neuroncore.emulator.access import require_written
from twintrack.neuroncore.emulator.dynamic import resolve
from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.memory.view import View

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core

__all__ = ["columns", "require_elements", "require_snake", "rows", "static"]

Array = npt.NDArray[Any]


def static(core: Core, ins: Instruction, view: View) -> View:
    """The view that an operand with one dynamic address means now; others are as they are."""
    found = resolve(core, ins, view)
    assert found is not None  # noqa: S101 - nothing is skipped
    return found


def rows(view: View, first: int, count: int, step: int = 1) -> View:
    """Some partitions of a view: every ``step``-th from the first."""
    strides = (view.strides[0] * step, *view.strides[1:])
    offset = view.offset + first * view.strides[0]
    return View(view.storage, view.dtype, (count, *view.shape[1:]), strides, offset)


def columns(view: View, first: int, count: int) -> View:
    """Some elements of each partition of a view that has one free dimension."""
    shape, strides = (view.shape[0], count), view.strides
    return View(view.storage, view.dtype, shape, strides, view.offset + first * strides[1])


def require_elements(core: Core, ins: Instruction, view: View, flat: Iterable[Array]) -> None:
    """Raise where an element that is gathered was never written.

    Args:
        view: from which is gathered, without a dynamic part.
        flat: numbers of elements within a partition, free dimensions as one, a row per partition of the view.
    """
    written = view.storage.written
    if not core.checked or written.whole or written.covers(view.pattern()):
        return
    ones = (1,) * len(view.shape)
    for partition, wanted in enumerate(flat):
        for element in np.unique(wanted).tolist():
            at = (partition, *np.unravel_index(element, view.shape[1:]))
            offset = view.offset + sum(int(i) * step for i, step in zip(at, view.strides, strict=True))
            require_written(ins, View(view.storage, view.dtype, ones, view.strides, offset))


def require_snake(core: Core, ins: Instruction, view: View, group: int, count: int) -> None:
    """Raise where one of the first ``count`` elements of a group of partitions was never written.

    Elements run down the partitions of a group first, then along the free dimensions.
    """
    written = view.storage.written
    if not core.checked or written.whole or written.covers(view.pattern()):
        return
    full, rest = divmod(count, group)
    if len(view.shape) != 2:
        ends = [full + (at % group < rest) for at in range(view.shape[0])]
        require_elements(core, ins, view, [np.arange(end) for end in ends])
        return
    if full:
        require_written(ins, columns(view, 0, full))
    if rest:
        last = columns(view, full, 1)
        for first in range(0, view.shape[0], group):
            require_written(ins, rows(last, first, rest))
