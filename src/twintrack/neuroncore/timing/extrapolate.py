"""Long affine loops from their first iterations.

An outermost ``affine_range`` loop may be extrapolated if it is proven that all iterations do the same: what its Python
can see and do is looked at where it runs (``nki.language.proven``); here, every traced iteration and the very last one
must issue the same instructions (same signatures, same lines), at places that move by a constant from one iteration to
the next. The time of a kernel is then a line in the number of iterations once the pipeline is full: the trace of ``n``
iterations is timed with fewer of them, and if successive differences agree the rest is added. Start and end of the loop
are in the trace, so prefetching and draining are timed, not guessed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from twintrack.neuroncore.emulator.shortened import FEWEST, ShortLoop
from twintrack.neuroncore.memory.buffer import MemoryRegion
from twintrack.neuroncore.memory.generation import Generation
from twintrack.neuroncore.timing.dma import Transfer
from twintrack.neuroncore.timing.parameters import Parameters
from twintrack.neuroncore.timing.schedule import schedule
from twintrack.neuroncore.timing.trace import ENGINES, Step, Trace

__all__ = [
    "AGREEMENT",
    "Extrapolated",
    "Grown",
    "Loop",
    "extrapolate",
    "needed_iterations",
    "proven",
    "without",
]

AGREEMENT = 2e-4
"""Relative difference of two successive iterations' times below which the loop counts as steady."""
_FEWEST_STEPS = 400
"""Instructions that the traced iterations must have, so that the start of the pipeline is a small part of them."""
_FILLS = 3
"""How often the traced iterations must fill the memory: how far loads run ahead is settled when it was full."""
_LONGEST_PERIOD = 6
_ANYWHERE = 1 << 30


@dataclass(frozen=True, slots=True)
class Loop:
    """A shortened loop of a trace.

    Args:
        total: iterations that the kernel asks for.
        starts: positions of the first step of each traced iteration, and one past the last step.
    """

    total: int
    starts: tuple[int, ...]

    @property
    def traced(self) -> int:
        """Iterations in the trace."""
        return len(self.starts) - 1


@dataclass(frozen=True, slots=True)
class Extrapolated:
    """A kernel's time from shortened loops.

    Args:
        base: the trace from which is counted on: so many iterations less that whole periods are missing.
        seconds: of the whole kernel.
        grown: per loop, how it goes on.
    """

    base: Trace
    seconds: float
    grown: tuple[Grown, ...]


@dataclass(frozen=True, slots=True)
class Grown:
    """How a loop goes on after its traced iterations.

    Args:
        loop: in the base trace.
        period: iterations after which the pipeline is as it was.
        times: such periods that are missing.
        seconds: of one of them.
    """

    loop: Loop
    period: int
    times: int
    seconds: float


def needed_iterations(trace: Trace, loop: Loop, generation: Generation) -> int:
    """Iterations that must be traced before a loop may be taken for steady.

    Loads run ahead of their use as far as SBUF is large, and products as far as there are PSUM banks, so the pipeline
    is full only when the tiles of an iteration come back to the places that earlier ones had.

    Args:
        trace: with some iterations.
        loop: of the trace.
        generation: whose memory sizes hold.
    """
    start, end = loop.starts[-2], loop.starts[-1]
    steps = max(1, end - start)
    made = {trace.region_buffers[at] for step in trace.steps[start:end] for at in step.writes}
    before = {trace.region_buffers[at] for step in trace.steps[:start] for at in (*step.writes, *step.reads)}
    fresh = [trace.buffers[at] for at in sorted(made - before) if trace.buffers[at].on_chip]
    needed = [FEWEST, math.ceil(_FEWEST_STEPS / steps)]
    for region, room in (
        (MemoryRegion.sbuf, generation.sbuf_partition_bytes),
        (MemoryRegion.psum, generation.psum_partition_bytes),
    ):
        taken = sum(one.partition_bytes for one in fresh if one.region is region)
        if taken:
            needed.append(FEWEST + math.ceil(_FILLS * room / taken))
    return max(needed)


def proven(trace: Trace, loops: Sequence[ShortLoop]) -> tuple[Trace, list[Loop]]:
    """A trace without the last iterations of loops, which ran to be compared with the first ones.

    Args:
        trace: of a kernel of which loops were shortened.
        loops: in the order in which they ran.

    Returns:
        The trace with each loop's first iterations, and the loops in it; none if an iteration does anything else than
        those before it, moved by a constant.
    """
    found: list[Loop] = []
    kept: list[Step] = []
    end = 0
    for one in loops:
        if not _is_affine(trace, one):
            return trace, []
        shift = len(kept) - end
        kept += trace.steps[end : one.starts[-1]]
        found.append(Loop(one.total, tuple([start + shift for start in one.starts])))
        end = one.end
    kept += trace.steps[end:]
    return _with(trace, kept), found


def _is_affine(trace: Trace, loop: ShortLoop) -> bool:
    """Whether every traced iteration but the first is its predecessor moved by a constant; the last one too."""
    spans = pairwise((*loop.starts, loop.end))
    bodies = [trace.steps[start:end] for start, end in spans]
    if len(bodies) <= FEWEST or len({len(body) for body in bodies[1:]}) != 1:
        return False
    moves: list[list[int]] | None = None
    for before, after in pairwise(bodies[1:-1]):
        found = _moves(trace, before, after)
        if found is None or (moves is not None and found != moves):
            return False
        moves = found
    assert moves is not None  # noqa: S101 - there are some iterations
    apart = loop.total - len(bodies) + 1
    ahead = [[apart * each for each in step] for step in moves]
    return _moves(trace, bodies[-2], bodies[-1]) == ahead


def _moves(trace: Trace, before: Sequence[Step], after: Sequence[Step]) -> list[list[int]] | None:
    """How far each operand moved, in bytes; ``None`` where the iterations differ otherwise."""
    found = []
    for one, other in zip(before, after, strict=True):
        same = (
            one.opcode == other.opcode
            and one.work == other.work
            and one.line == other.line
            and len(one.reads) == len(other.reads)
            and len(one.writes) == len(other.writes)
        )
        if not same:
            return None
        moved = [
            _moved(trace, a, b)
            for a, b in zip((*one.reads, *one.writes), (*other.reads, *other.writes), strict=True)
        ]
        if any(one is None for one in moved):
            return None
        found.append([one for one in moved if one is not None])
    return found


def _moved(trace: Trace, first: int, second: int) -> int | None:
    a, b = trace.region_boxes[first], trace.region_boxes[second]
    one, other = trace.region_buffers[first], trace.region_buffers[second]
    if a.rows[1] >= _ANYWHERE or b.rows[1] >= _ANYWHERE or a.stride != b.stride:
        return None
    size = (a.rows[1] - a.rows[0], a.columns[1] - a.columns[0])
    if size != (b.rows[1] - b.rows[0], b.columns[1] - b.columns[0]):
        return None
    if one != other:
        mine, theirs = trace.buffers[one], trace.buffers[other]
        alike = (mine.region, mine.shape, mine.dtype, mine.lineno) == (
            theirs.region, theirs.shape, theirs.dtype, theirs.lineno,
        )  # fmt: skip
        return 0 if alike and (a.rows, a.columns) == (b.rows, b.columns) else None
    stride = a.stride or 1 << 20
    return (b.rows[0] - a.rows[0]) * stride + b.columns[0] - a.columns[0]


def extrapolate(
    trace: Trace, loops: Sequence[Loop], generation: Generation, parameters: Parameters | None = None
) -> Extrapolated | None:
    """Time a kernel of which loops were shortened; ``None`` where they cannot be extrapolated.

    Iterations may take turns in a pattern, as when a load and a store compete; the shortest period up to six that
    repeats is taken (of one alone where several loops were shortened).

    Args:
        trace: as ``proven`` gives it.
        loops: likewise.
        generation: whose memory sizes hold.
        parameters: those of the trace by default.
    """
    if len(loops) == 1:
        return _one_loop(trace, loops[0], generation, parameters)
    whole = schedule(trace, generation, parameters).seconds
    grown = []
    for loop in loops:
        each = _steady(trace, loop, 1, generation, parameters, whole)
        if each is None:
            return None
        grown.append(Grown(loop, 1, loop.total - loop.traced, each))
    return Extrapolated(trace, whole + sum(one.times * one.seconds for one in grown), tuple(grown))


def _one_loop(
    trace: Trace, loop: Loop, generation: Generation, parameters: Parameters | None
) -> Extrapolated | None:
    whole = schedule(trace, generation, parameters).seconds
    for period in range(1, _LONGEST_PERIOD + 1):
        if loop.traced < 2 * period + 3:
            return None
        each = _steady(trace, loop, period, generation, parameters, whole)
        if each is None:
            continue
        surplus = -(loop.total - loop.traced) % period
        base = without(trace, loop, surplus) if surplus else trace
        shorter = Loop(loop.total, loop.starts[: len(loop.starts) - surplus])
        times = (loop.total - shorter.traced) // period
        seconds = schedule(base, generation, parameters).seconds if surplus else whole
        return Extrapolated(base, seconds + times * each, (Grown(shorter, period, times, each),))
    return None


def _steady(
    trace: Trace,
    loop: Loop,
    period: int,
    generation: Generation,
    parameters: Parameters | None,
    whole: float,
) -> float | None:
    """Seconds of one period, if the loop is steady.

    Two successive periods, the same one an iteration earlier, and on average those of the later half of what was traced
    must take as long; and none can take less than its busiest resource needs for it, as one does while loads still run
    ahead of what they are queued behind.
    """
    half = max(2, (loop.traced - FEWEST) // (2 * period)) * period
    counts = sorted({1, period, period + 1, 2 * period, half})
    if counts[-1] >= loop.traced - 1:
        return None
    by = {count: schedule(without(trace, loop, count), generation, parameters).seconds for count in counts}
    last, previous = whole - by[period], by[period] - by[2 * period]
    earlier = by[1] - by[period + 1]
    average = (whole - by[half]) * period / half
    alike = all(abs(last - other) <= AGREEMENT * last for other in (previous, earlier, average))
    enough = last >= period * _demand(trace, loop, parameters or trace.parameters) * (1 - AGREEMENT)
    return last if last > 0 and alike and enough else None


def _demand(trace: Trace, loop: Loop, p: Parameters) -> float:
    """Seconds that the busiest resource needs for the last traced iteration."""
    start, end = loop.starts[-2], loop.starts[-1]
    busy: dict[object, float] = {}
    for step in trace.steps[start:end]:
        work = step.work
        if isinstance(work, Transfer):
            share = work.engine_ns * work.engines / p.dma_engines
            busy["engines"] = busy.get("engines", 0.0) + share
            busy["queue", step.queue] = busy.get(("queue", step.queue), 0.0) + p.dma_issue
        else:
            name = ENGINES[step.engine]
            busy[name] = busy.get(name, 0.0) + (work.cycles + work.fixed) / p.clocks[step.engine]
    return max(busy.values(), default=0.0) * 1e-9


def without(trace: Trace, loop: Loop, count: int) -> Trace:
    """The trace without the last iterations of a loop.

    Args:
        trace: with the loop's steps.
        loop: of the trace.
        count: iterations to leave out.
    """
    start, end = loop.starts[-1 - count], loop.starts[-1]
    return _with(trace, [*trace.steps[:start], *trace.steps[end:]])


def _with(trace: Trace, steps: list[Step]) -> Trace:
    """The trace with some of its steps."""
    shorter = Trace(trace.parameters)
    shorter.steps = steps
    shorter.region_buffers, shorter.region_boxes = trace.region_buffers, trace.region_boxes
    shorter.members, shorter.buffers, shorter.lines = trace.members, trace.buffers, trace.lines
    return shorter
