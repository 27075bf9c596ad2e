"""When every instruction starts and ends, and what it waited for.

Instructions are taken in program order. Engines have in-order queues; an instruction starts when its engine is free
and everything that the compiler's semaphores order before it is done: writes of what it reads, reads and writes of what
it writes, the last use of tiles whose place it takes, ``depends_on``. Waiting for another engine costs a semaphore,
for a DMA its completion. A DMA is issued by a queue, starts after a latency, and shares the DMA engines.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from twintrack.neuroncore.collection import uncollected
from twintrack.neuroncore.memory.buffer import Buffer, MemoryRegion
from twintrack.neuroncore.memory.generation import Generation
from twintrack.neuroncore.timing.cost import Work
from twintrack.neuroncore.timing.dma import Transfer, spill_transfer
from twintrack.neuroncore.timing.parameters import Parameters
from twintrack.neuroncore.timing.pool import Pool
from twintrack.neuroncore.timing.ports import Ports
from twintrack.neuroncore.timing.regions import overlaps
from twintrack.neuroncore.timing.rotation import predecessors
from twintrack.neuroncore.timing.tensor_engine import TensorEngine
from twintrack.neuroncore.timing.trace import ENGINES, Step, Trace
from twintrack.neuroncore.timing.traffic import Reloads, spilled_positions

__all__ = ["DMA", "Span", "Timeline", "schedule"]

DMA = -1
"""Engine number of a DMA."""
_TENSOR = ENGINES.index("tensor")
_DEFAULT_QUEUE = "dma"
_NOTHING = -1
_NOBODY = -3
_ANY_DMA = -2
"""Engine of a DMA's access: DMAs are not in order among themselves, so it is nobody's own."""


class Span(NamedTuple):
    """One instruction in time, ns from the start of the kernel.

    Attributes:
        start: when it became active: waiting is not active.
        end: when its results were written.
        cause: position of the instruction that it waited for last; -1 where it waited for its engine or for nothing.
        wait: ns between the time when its engine could have taken it and ``start``; of a DMA between the time when
            its operands were there and ``start``, without its latency.
        reason: what it waited for: ``data``, ``place`` (a tile's memory), ``engine``, ``queue`` (that issues DMAs),
            ``dma`` (its engines), ``barrier``.
    """

    start: float
    end: float
    cause: int
    wait: float
    reason: str


@dataclass(slots=True)
class Timeline:
    """A trace in time.

    Args:
        trace: what was timed.
        spans: one per step.
        seconds: of the whole kernel, from its first instruction to the last result.
        throttled_ns: lost by the Tensor Engine to the limit after idleness.
        dma_busy_ns: sum over DMA engines, divided by their number.
    """

    trace: Trace
    spans: list[Span]
    seconds: float
    throttled_ns: float = 0.0
    dma_busy_ns: float = 0.0
    dma_active: list[tuple[float, float]] = field(default_factory=list)
    """Stretches in which at least one DMA engine was busy."""
    reached: dict[int, float] = field(default_factory=dict)
    """When this core is ready for each of its meetings, by their number: what the other core of LNC2 waits for."""
    spill_bytes: int = 0
    """Moved for tiles that do not fit, both ways."""
    dropped_loads: int = 0
    """Loads that were left out because an earlier tile still holds the same."""


_Access = tuple[float, int, int]
"""When others see an access, the engine that made it, and the position of its step."""
_NEVER: _Access = (0.0, _NOBODY, _NOTHING)
_record = tuple.__new__
"""Makes a named tuple of a tuple without naming every field: there is one per instruction."""


class _State:
    """Everything that moves while a trace is scheduled."""

    def __init__(self, trace: Trace, generation: Generation, parameters: Parameters) -> None:
        self.p = parameters
        self.trace = trace
        self.overlap = trace.once("overlaps", lambda: overlaps(trace))
        self.region_buffer = trace.region_buffers
        self.replaced = trace.once(
            ("replaced", generation.chip), lambda: predecessors(trace.buffers, generation)
        )
        count = len(trace.region_boxes)
        self.written = [_NEVER] * count
        """The latest write of each region; ``read`` likewise."""
        self.read = [_NEVER] * count
        self.members = trace.members
        edges = any(step.after for step in trace.steps)
        self.positions = {step.number: at for at, step in enumerate(trace.steps)} if edges else {}
        self.placed = [False] * len(trace.buffers)
        self.free = [0.0] * len(ENGINES)
        self.tensor = TensorEngine(parameters)
        self.queues: dict[str, Pool] = {}
        self.engines = Pool()
        self.table = ""
        self.spans: list[Span] = []
        self.active: list[tuple[float, float]] = []
        self.ports = Ports(parameters)
        self.spilled: frozenset[int] = frozenset()
        self.stored: dict[int, float] = {}
        self.spill_bytes = 0
        self.gone: set[int] = set()


@uncollected()
def schedule(
    trace: Trace,
    generation: Generation,
    parameters: Parameters | None = None,
    *,
    meetings: Mapping[int, float] | None = None,
    unlimited: Collection[MemoryRegion] = (),
    spilled: Iterable[Buffer] = (),
    drop_reloads: bool = False,
) -> Timeline:
    """Time a trace.

    Args:
        trace: of one core.
        generation: whose memory sizes hold.
        parameters: those of the trace by default; others answer what-if questions.
        meetings: for a core of LNC2: when every barrier and exchange is reached by the other core, by its number.
        unlimited: memories in which no tile waits for another's place, for what-if questions.
        spilled: tiles that do not fit; they are written out and read back.
        drop_reloads: whether loads of what an earlier tile still holds are left out, as the compiler may.

    Returns:
        The timeline; a run of the same trace gives the same times to the last bit.
    """
    state = _State(trace, generation, parameters or trace.parameters)
    if unlimited:
        state.replaced = {
            at: dead for at, dead in state.replaced.items() if trace.buffers[at].region not in unlimited
        }
    others = meetings or {}
    reached: dict[int, float] = {}
    state.spilled = spilled_positions(trace, spilled)
    reloads = Reloads(trace) if drop_reloads else None
    for at, step in enumerate(trace.steps):
        if reloads is not None:
            if step.engine != DMA:
                reloads.wrote(step)
            elif _dropped(state, reloads, step):
                continue
        ready, cause, reason = _ready(state, step)
        if state.spilled:
            ready = max(ready, _reloaded(state, step))
        if step.meets:
            reached[step.meets] = max(ready, state.free[step.engine] if step.engine >= 0 else 0.0)
            if others.get(step.meets, 0.0) > ready:
                ready, cause, reason = others[step.meets], _NOTHING, "barrier"
        span = (_dma if step.engine == DMA else _compute)(state, step, ready, cause, reason)
        state.spans.append(span)
        _remember(state, at, step, span.end)
        if state.spilled:
            _spill(state, step, span.end)
    end = max([span.end for span in state.spans], default=0.0)
    return Timeline(
        trace,
        state.spans,
        end * 1e-9,
        state.tensor.throttled_ns,
        state.engines.busy,
        _merged(state.active),
        reached,
        state.spill_bytes,
        0 if reloads is None else reloads.dropped,
    )


def _dropped(state: _State, reloads: Reloads, step: Step) -> bool:
    """Leave a load out whose elements an earlier tile still holds: its tile is there when that one is."""
    earlier = reloads.earlier(step, state.gone)
    if earlier is None:
        return False
    region, written = step.writes[0], state.written
    written[region] = written[earlier]
    then = max(0.0, written[earlier][0] - state.p.dma_completion)
    state.spans.append(Span(then, then, _NOTHING, 0.0, "dropped"))
    state.placed[state.region_buffer[region]] = True
    return True


def _reloaded(state: _State, step: Step) -> float:
    """When the spilled tiles that the step uses for the last time are back."""
    ready = 0.0
    for region in step.reads:
        at = state.region_buffer[region]
        if at in state.spilled and at in state.stored and state.trace.buffers[at].last_use == step.number:
            ready = max(ready, _spill_dma(state, at, state.stored.pop(at)) + state.p.dma_completion)
    return ready


def _spill(state: _State, step: Step, done: float) -> None:
    """Write out the spilled tiles that the step made."""
    for region in step.writes:
        at = state.region_buffer[region]
        if at in state.spilled and at not in state.stored and state.trace.buffers[at].last_use > step.number:
            state.stored[at] = _spill_dma(state, at, done)


def _spill_dma(state: _State, at: int, ready: float) -> float:
    transfer = spill_transfer(state.trace.buffers[at], state.p)
    state.spill_bytes += transfer.bytes
    return _moved(state, transfer, ready, _DEFAULT_QUEUE)[2]


def _ready(state: _State, step: Step) -> tuple[float, int, str]:
    """When everything that is ordered before the step is done, and seen by its engine.

    What its own in-order queue did is done anyway.
    """
    overlap, written, read = state.overlap, state.written, state.read
    mine = step.engine
    ready, cause, reason = 0.0, _NOTHING, "data"
    for region in step.reads:
        last = written[region]
        if last[0] > ready and last[1] != mine:
            ready, _, cause = last
        for other in overlap[region]:
            last = written[other]
            if last[0] > ready and last[1] != mine:
                ready, _, cause = last
    for region in step.writes:
        for last in (written[region], read[region]):
            if last[0] > ready and last[1] != mine:
                ready, _, cause = last
        for other in overlap[region]:
            for last in (written[other], read[other]):
                if last[0] > ready and last[1] != mine:
                    ready, _, cause = last
        buffer = state.region_buffer[region]
        if not state.placed[buffer]:
            state.placed[buffer] = True
            for dead in state.replaced.get(buffer, ()):
                state.gone.add(dead)
                last = _last_use(state, dead)
                if last[0] > ready and last[1] != mine:
                    ready, _, cause = last
                    reason = "place"
    for number in step.after:
        at = state.positions.get(number)
        if at is not None and state.spans[at].end + state.p.semaphore > ready:
            ready, cause, reason = state.spans[at].end + state.p.semaphore, at, "data"
    return ready, cause, reason


def _compute(state: _State, step: Step, ready: float, cause: int, reason: str) -> Span:
    work: Any = step.work
    engine = step.engine
    if engine == _TENSOR:
        free = state.tensor.free
        start, end = state.tensor.run(ready, work)
    else:
        free = state.free[engine]
        length = _duration(state, engine, work)
        could = max(ready, free)
        start = state.ports.take(engine, work, could, length)
        if start > could:
            reason, cause = "engine", _NOTHING  # another engine has a port that both share
        end = start + length
        state.free[engine] = end
    if start > free:
        return _record(Span, (start, end, cause, start - free, reason))
    return _record(Span, (start, end, _NOTHING, 0.0, "engine"))


def _duration(state: _State, engine: int, work: Work) -> float:
    p = state.p
    length = (work.cycles + work.fixed) / p.clocks[engine]
    if work.table and work.table != state.table:
        state.table = work.table
        length += p.scalar_table_load
    return length


def _dma(state: _State, step: Step, ready: float, cause: int, reason: str) -> Span:
    transfer: Any = step.work
    name = step.queue if step.queue != "unknown" else _DEFAULT_QUEUE
    issued, begin, end = _moved(state, transfer, ready, name)
    started = issued + state.p.dma_start
    queued, shared = issued - ready, begin - started
    if max(queued, shared) > 0:
        cause, reason = _NOTHING, "queue" if queued > shared else "dma"
    return Span(begin, end, cause, max(0.0, begin - state.p.dma_start - ready), reason)


def _moved(state: _State, transfer: Transfer, ready: float, name: str) -> tuple[float, float, float]:
    """When a transfer is issued by a queue, when its first engine begins, and when its last one ends."""
    p = state.p
    queue = state.queues.get(name)
    if queue is None:
        queue = state.queues[name] = Pool()
    # in pieces, where one that is not ready yet is in the way: else a gap of half a trigger would be lost
    issued = queue.share(ready, p.dma_issue)[1] - p.dma_issue
    share = transfer.engines / p.dma_engines
    begin, last = state.engines.share(issued + p.dma_start, transfer.engine_ns * share)
    stagger = p.dma_stagger * (transfer.engines - 1) / (p.dma_engines - 1)
    end = max(last, begin + transfer.engine_ns) + stagger
    state.active.append((begin, end))
    return issued, begin, end


def _remember(state: _State, at: int, step: Step, end: float) -> None:
    """Note when others see what the step read and wrote."""
    engine, delay = step.engine, state.p.semaphore
    if engine == DMA:
        engine, delay = _ANY_DMA, state.p.dma_completion
    seen = end + delay
    now, read, written = (seen, engine, at), state.read, state.written
    for region in step.reads:
        if seen > read[region][0]:
            read[region] = now
    for region in step.writes:
        if seen > written[region][0]:
            written[region] = now


def _last_use(state: _State, buffer: int) -> _Access:
    """The latest access to any part of a buffer so far; of several at one time the first in the program."""
    found = _NEVER
    for at in state.members[buffer]:
        for last in (state.read[at], state.written[at]):
            if last[0] > found[0] or (last[0] == found[0] and last[2] < found[2]):
                found = last
    return found


def _merged(stretches: list[tuple[float, float]]) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    for start, end in sorted(stretches):
        if found and start <= found[-1][1]:
            if end > found[-1][1]:
                found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found
