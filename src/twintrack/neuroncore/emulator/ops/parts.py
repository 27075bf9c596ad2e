"""What handlers need that touch a part of an operand: the address that it has now, and whether the part was written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from twintrack.neuroncore.emulator.access import require_written
from twintrack.neuroncore.emulator.dynamic import resolve
from twintrack.neuroncore.emulator.partial import element, rows, snake
from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.memory.view import View

if TYPE_CHECKING:
    from twintrack.neuroncore.emulator.core import Core

__all__ = ["require_elements", "require_snake", "static"]

Array = npt.NDArray[Any]


def static(core: Core, ins: Instruction, view: View) -> View:
    """The view that an operand with one dynamic address means now; others are as they are."""
    found = resolve(core, ins, view)
    assert found is not None  # noqa: S101 - nothing is skipped
    return found


def require_elements(core: Core, ins: Instruction, view: View, flat: Array) -> None:
    """Raise where an element that is gathered was never written.

    Args:
        core: whose checks.
        ins: for messages.
        view: from which is gathered, without a dynamic part.
        flat: numbers of elements as if free dimensions were one, a row per partition of the view.
    """
    if not core.checked or _there(view):
        return
    for partition, wanted in enumerate(flat):
        row = rows(view, partition, 1)
        for number in np.unique(wanted).tolist():
            require_written(ins, element(row, number))


def require_snake(core: Core, ins: Instruction, view: View, count: int) -> None:
    """Raise where one of the first ``count`` elements of each 16 partitions was never written."""
    if core.checked and not _there(view):
        for part in snake(view, count):
            require_written(ins, part)


def _there(view: View) -> bool:
    written = view.storage.written
    return written.whole or written.covers(view.pattern())
