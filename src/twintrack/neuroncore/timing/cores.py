"""One or two cores in time: LNC2's cores wait for each other at meetings and share the bandwidth of their HBM.

What one core reaches is the other's earliest time at a meeting, so both are timed again until no meeting moves: the
first is right after one pass, the next after two, and so on. While both load, a core's DMA engines run at the rate that
was published for two; the share of time in which both do follows from the times themselves, and is settled likewise.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from twintrack.neuroncore.memory.buffer import Buffer, MemoryRegion
from twintrack.neuroncore.memory.generation import Generation
from twintrack.neuroncore.timing.cost import Work
from twintrack.neuroncore.timing.dma import Transfer
from twintrack.neuroncore.timing.parameters import Parameters
from twintrack.neuroncore.timing.schedule import Timeline, schedule
from twintrack.neuroncore.timing.trace import Step, Trace

__all__ = ["Change", "at_dma_rate", "reworked", "schedule_cores"]

Change = Callable[[int, Work | Transfer], Work | Transfer]
"""What an engine (its number, -1 for DMA) does instead of some work."""
_MOST_ROUNDS = 6
_SETTLED = 0.005
"""Change of the share of time in which both cores load below which it counts as settled."""


def schedule_cores(
    traces: Sequence[Trace],
    generation: Generation,
    parameters: Parameters | None = None,
    *,
    together: bool = False,
    unlimited: Collection[MemoryRegion] = (),
    share_hbm: bool = True,
    spilled: Sequence[Collection[Buffer]] = (),
    drop_reloads: bool = False,
) -> list[Timeline]:
    """Time several traces.

    Args:
        traces: of the cores of LNC2, or of programs that run one after the other.
        generation: whose memory sizes hold.
        parameters: those of the traces by default.
        together: whether they run at once, as the cores of LNC2 do.
        unlimited: memories in which no tile waits for another's place.
        share_hbm: whether cores that run together share the bandwidth of HBM.
        spilled: per trace, tiles that do not fit; they take no room where SBUF is unlimited.
        drop_reloads: whether loads of what an earlier tile still holds are left out.

    Returns:
        A timeline per trace, each from its own start.
    """
    p = parameters or traces[0].parameters

    def time(number: int, trace: Trace, meetings: Mapping[int, float] | None) -> Timeline:
        fits = MemoryRegion.sbuf in unlimited or number >= len(spilled)
        return schedule(
            trace,
            generation,
            p,
            meetings=meetings,
            unlimited=unlimited,
            spilled=() if fits else spilled[number],
            drop_reloads=drop_reloads,
        )

    if not together or len(traces) == 1:
        return [time(number, one, None) for number, one in enumerate(traces)]
    found = _met(traces, time)
    shared = p.dma_core_rate_shared / p.dma_engines
    if not share_hbm or shared >= p.dma_rate:
        return found
    shares = [0.0] * len(traces)
    for _ in range(_MOST_ROUNDS):
        now = _both_load(found)
        if all(abs(a - b) <= _SETTLED for a, b in zip(now, shares, strict=True)):
            break
        shares = now
        slower = [
            reworked(one, at_dma_rate(p, share * shared + (1 - share) * p.dma_rate))
            for one, share in zip(traces, shares, strict=True)
        ]
        found = _met(slower, time)
    return found


def _met(
    traces: Sequence[Trace], time: Callable[[int, Trace, Mapping[int, float] | None], Timeline]
) -> list[Timeline]:
    meetings: list[dict[int, float]] = [{} for _ in traces]
    while True:
        found = [time(number, one, meetings[number]) for number, one in enumerate(traces)]
        reached = [_latest([one.reached for one in found if one is not mine]) for mine in found]
        if reached == meetings:
            return found
        meetings = reached


def _latest(reached: Sequence[dict[int, float]]) -> dict[int, float]:
    numbers = {number for one in reached for number in one}
    return {number: max(one.get(number, 0.0) for one in reached) for number in sorted(numbers)}


def _both_load(timelines: Sequence[Timeline]) -> list[float]:
    """Of the time in which each of two cores loads, the share in which the other does too."""
    first, second = (one.dma_active for one in timelines)
    at = other = 0
    both = 0.0
    while at < len(first) and other < len(second):
        both += max(0.0, min(first[at][1], second[other][1]) - max(first[at][0], second[other][0]))
        if first[at][1] < second[other][1]:
            at += 1
        else:
            other += 1
    return [both / total if (total := sum(b - a for a, b in one)) else 0.0 for one in (first, second)]


def reworked(trace: Trace, change: Change) -> Trace:
    """The same trace with other work for its engines; what stays is shared."""
    made: dict[tuple[int, int], Work | Transfer] = {}

    def new(step: Step) -> Step:
        key = (step.engine, id(step.work))
        work = made.get(key)
        if work is None:
            work = made[key] = change(step.engine, step.work)
        return step if work is step.work else step._replace(work=work)

    found = copy.copy(trace)
    found.steps = [new(step) for step in trace.steps]
    return found


def at_dma_rate(p: Parameters, rate: float, row: float | None = None) -> Change:
    """Transfers at another rate.

    Args:
        p: for which the transfers were costed.
        rate: bytes per ns and engine.
        row: ns per descriptor; as it was by default.
    """
    per_row = p.dma_row if row is None else row

    def change(engine: int, work: Any) -> Any:
        del engine
        if not isinstance(work, Transfer):
            return work
        rows = math.ceil(work.rows / work.engines)
        bytes_ns = work.engine_ns - rows * p.dma_row
        return work._replace(engine_ns=rows * per_row + bytes_ns * p.dma_rate / rate)

    return change
