"""Tensors that the body of a loop on the device makes are its own: nothing after the loop may name them.

Documented for ``fori_loop`` and ``while_loop`` (sdk:nki/migration/index.rst, "Rules for migrated loops"). Here every
iteration makes its tensors anew, so that a kernel that broke the rule would read those of the last one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from twintrack.neuroncore.emulator.core import Core
from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.isa.legality.common import broken
from twintrack.neuroncore.memory.view import View

__all__ = ["body_of"]


def _refuse_ended(core: Core, ins: Instruction) -> None:
    """An observer of a core on which such loops have ended."""
    del core
    for view in (*ins.outs, *ins.ins):
        index = None if view is None or view.dynamic is None else view.dynamic.index
        for one in (view, index):
            if isinstance(one, View) and one.storage.buffer.ended:
                raise broken(
                    ins,
                    "tensors made outside of loops that have ended",
                    f"one made in the body of the loop at {one.storage.buffer.ended}",
                    "allocate it before the loop, and let the body write to it",
                    one,
                )


@contextmanager
def body_of(core: Core, line: str) -> Iterator[None]:
    """While a loop on the device runs; what its body made is out of reach afterwards.

    Args:
        core: that runs the loop.
        line: ``file:line`` of the loop.
    """
    first = len(core.buffers)
    yield
    made = core.buffers[first:]
    if not made or not core.checked:
        return
    for buffer in made:
        buffer.ended = buffer.ended or line
    if _refuse_ended not in core.observers:
        core.observers = (*core.observers, _refuse_ended)
