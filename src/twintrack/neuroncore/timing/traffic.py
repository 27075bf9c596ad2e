"""Traffic that stands in no kernel: tiles that are spilled, and loads that a compiler drops.

*Spills.* A tile that does not fit is written to HBM once it is made and read back before its last use
(``memory.capacity`` says which). Both are DMAs like any other; whoever uses the tile last waits for the second.

*Dropped loads.* The compiler is known to drop the load of a region that nothing wrote since it was loaded before, where
the earlier tile is still there. An option, off by default: what is timed is then not what the kernel says.
"""

from __future__ import annotations

from collections.abc import Iterable

from twintrack.neuroncore.memory.buffer import Buffer
from twintrack.neuroncore.timing.trace import Step, Trace

__all__ = ["Reloads", "spilled_positions"]


def spilled_positions(trace: Trace, spilled: Iterable[Buffer]) -> frozenset[int]:
    """Positions in ``trace.buffers`` of tiles that do not fit."""
    wanted = {id(one) for one in spilled}
    return frozenset(at for at, one in enumerate(trace.buffers) if id(one) in wanted)


class Reloads:
    """Loads that are dropped because an earlier tile still holds the same elements.

    Args:
        trace: of one core; HBM that it writes is never taken for unchanged.
    """

    def __init__(self, trace: Trace) -> None:
        _, written = trace.touched()
        self._trace = trace
        self._written = written
        self._held: dict[tuple[int, tuple[int, ...]], tuple[int, int]] = {}
        self._keys: dict[int, list[tuple[int, tuple[int, ...]]]] = {}
        self.dropped = 0
        """Loads that were dropped."""

    def earlier(self, step: Step, gone: set[int]) -> int | None:
        """The region that already holds what a DMA would load, or ``None``; remembers the load.

        Args:
            step: a DMA.
            gone: buffers whose place another tile took.
        """
        trace, buffers = self._trace, self._trace.buffers
        if step.opcode != "dma_copy" or len(step.reads) != 1 or len(step.writes) != 1:
            self.wrote(step)
            return None
        source, target = trace.region_buffers[step.reads[0]], trace.region_buffers[step.writes[0]]
        if buffers[source].on_chip or source in self._written or not buffers[target].on_chip:
            self.wrote(step)
            return None
        box = trace.region_boxes[step.writes[0]]
        shape = (box.rows[1] - box.rows[0], *box.columns)
        key = (step.reads[0], shape)
        found = self._held.get(key)
        if found is not None and found[1] not in gone and target != found[1]:
            self.dropped += 1
            return found[0]
        self._forget(target)
        self._held[key] = (step.writes[0], target)
        self._keys.setdefault(target, []).append(key)
        return None

    def wrote(self, step: Step) -> None:
        """A tile that anything but a load writes holds no longer what was loaded."""
        for region in step.writes:
            self._forget(self._trace.region_buffers[region])

    def _forget(self, buffer: int) -> None:
        for key in self._keys.pop(buffer, ()):
            if self._held.get(key, (0, -1))[1] == buffer:
                del self._held[key]
