"""Long affine loops from their first iterations.

An outermost ``affine_range`` loop may be extrapolated if its body is proven affine: every traced iteration issues the
same instructions (same signatures, same lines), at places that move by a constant from one iteration to the next, and
no address depends on data. The time of a kernel is then a line in the number of iterations once the pipeline is full:
the trace of ``n`` iterations is timed with ``n``, ``n - 1`` and ``n - 2`` of them, and if the two differences agree the
rest is added. Start and end of the loop are in the trace, so prefetching and draining are timed, not guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from twintrack.neuroncore.memory.generation import Generation
from twintrack.neuroncore.timing.parameters import Parameters
from twintrack.neuroncore.timing.schedule import Timeline, schedule
from twintrack.neuroncore.timing.trace import Step, Trace

__all__ = ["AGREEMENT", "Extrapolated", "Loop", "extrapolate", "is_affine"]

AGREEMENT = 2e-4
"""Relative difference of two successive iterations' times below which the loop counts as steady."""
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
        timeline: of what was traced.
        seconds: of the whole kernel.
        iterations: per loop, traced and total.
        per_iteration: per loop, seconds of one steady iteration.
    """

    timeline: Timeline
    seconds: float
    iterations: tuple[tuple[int, int], ...]
    per_iteration: tuple[float, ...]


def is_affine(trace: Trace, loop: Loop) -> bool:
    """Whether every traced iteration but the first is its predecessor moved by a constant."""
    bodies = [trace.steps[start:end] for start, end in pairwise(loop.starts)]
    if len({len(body) for body in bodies}) != 1:
        return False
    moves: list[list[int]] | None = None
    for before, after in pairwise(bodies[1:]):
        found = _moves(trace, before, after)
        if found is None or (moves is not None and found != moves):
            return False
        moves = found
    return moves is not None


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
    a, b = trace.regions[first], trace.regions[second]
    if a.rows[1] >= _ANYWHERE or b.rows[1] >= _ANYWHERE or a.stride != b.stride:
        return None
    size = (a.rows[1] - a.rows[0], a.columns[1] - a.columns[0])
    if size != (b.rows[1] - b.rows[0], b.columns[1] - b.columns[0]):
        return None
    if a.buffer != b.buffer:
        mine, theirs = trace.buffers[a.buffer], trace.buffers[b.buffer]
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

    Args:
        trace: with at least four iterations of each loop.
        loops: the shortened ones.
        generation: whose memory sizes hold.
        parameters: those of the trace by default.
    """
    if any(loop.traced < 4 or not is_affine(trace, loop) for loop in loops):
        return None
    whole = schedule(trace, generation, parameters)
    seconds = whole.seconds
    per_iteration = []
    for loop in loops:
        one = schedule(_without(trace, loop, 1), generation, parameters).seconds
        two = schedule(_without(trace, loop, 2), generation, parameters).seconds
        last, previous = whole.seconds - one, one - two
        if last <= 0 or abs(last - previous) > AGREEMENT * last:
            return None
        per_iteration.append(last)
        seconds += (loop.total - loop.traced) * last
    counts = tuple((loop.traced, loop.total) for loop in loops)
    return Extrapolated(whole, seconds, counts, tuple(per_iteration))


def _without(trace: Trace, loop: Loop, count: int) -> Trace:
    """The trace without the last iterations of a loop."""
    start, end = loop.starts[-1 - count], loop.starts[-1]
    shorter = Trace(trace.parameters)
    shorter.steps = [*trace.steps[:start], *trace.steps[end:]]
    shorter.regions, shorter.buffers, shorter.lines = trace.regions, trace.buffers, trace.lines
    shorter.region_bytes = trace.region_bytes
    return shorter
