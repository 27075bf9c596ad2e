"""What timelines add up to: engines, transfers, bytes, waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from twintrack.neuroncore.timing.profile import DmaUse, EngineUse, Wait
from twintrack.neuroncore.timing.schedule import DMA, Timeline
from twintrack.neuroncore.timing.trace import ENGINES

__all__ = ["bytes_of", "dma_of", "engines_of", "flops_of", "unpublished_of", "waits_of"]

_CRUMB = 1e-3
"""Waits below a picosecond are what rounding leaves."""
_DROPPED = "dropped"


def engines_of(timelines: Sequence[Timeline], time: float) -> dict[str, EngineUse]:
    """What each engine did; ``time`` is that of all cores together, in seconds."""
    active = [0.0] * len(ENGINES)
    counts = [0] * len(ENGINES)
    for one in timelines:
        for step, span in zip(one.trace.steps, one.spans, strict=True):
            if step.engine != DMA:
                active[step.engine] += span.end - span.start
                counts[step.engine] += 1
    return {
        name: EngineUse(active[at] * 1e-9, active[at] * 1e-9 / time, counts[at])
        for at, name in enumerate(ENGINES)
        if counts[at] or name != "sync"
    }


def dma_of(timelines: Sequence[Timeline], time: float) -> DmaUse:
    """What the DMA engines did; ``time`` as above."""
    transfers: list[Any] = [
        step.work
        for one in timelines
        for step, span in zip(one.trace.steps, one.spans, strict=True)
        if step.engine == DMA and span.reason != _DROPPED
    ]
    active = sum(end - start for one in timelines for start, end in one.dma_active) * 1e-9
    moved = sum(one.bytes for one in transfers) + sum(one.spill_bytes for one in timelines)
    busy = sum(one.dma_busy_ns for one in timelines) * 1e-9
    return DmaUse(
        active,
        active / time,
        len(transfers),
        moved,
        sum(one.rows for one in transfers),
        moved / active * 1e-9 if active else 0.0,
        busy / time,
    )


def flops_of(timelines: Sequence[Timeline]) -> int:
    """Multiplications and additions of the Tensor Engine."""
    tensor = ENGINES.index("tensor")
    works: list[Any] = [step.work for one in timelines for step in one.trace.steps if step.engine == tensor]
    return sum(work.flops for work in works)


def bytes_of(timelines: Sequence[Timeline]) -> tuple[int, int, int]:
    """Read from HBM, written to HBM, and both in SBUF; spilled tiles are written once and read once."""
    read = written = sbuf = 0
    for one in timelines:
        trace = one.trace
        sizes = [
            box.bytes if trace.buffers[buffer].region.value == "sbuf" else 0
            for buffer, box in zip(trace.region_buffers, trace.region_boxes, strict=True)
        ]
        read += one.spill_bytes // 2
        written += one.spill_bytes // 2
        sbuf += one.spill_bytes
        for step, span in zip(trace.steps, one.spans, strict=True):
            if span.reason == _DROPPED:
                continue
            sbuf += sum(sizes[region] for region in step.reads) + sum(sizes[region] for region in step.writes)
            if step.engine == DMA:
                work: Any = step.work
                stored = work.bytes if work.writes_hbm else 0
                written += stored
                read += work.hbm_bytes - stored
    return read, written, sbuf


def unpublished_of(timelines: Sequence[Timeline]) -> dict[str, int]:
    """How often instructions were used whose cost nobody published, by opcode."""
    found = Counter(
        step.opcode
        for one in timelines
        for step in one.trace.steps
        if step.engine != DMA and not getattr(step.work, "published", True)
    )
    return dict(sorted(found.items()))


def waits_of(timelines: Sequence[Timeline]) -> tuple[Wait, ...]:
    """Waits by engine, source line, cause and reason, the longest first."""
    total: dict[tuple[str, str, str, str], float] = {}
    count: dict[tuple[str, str, str, str], int] = {}
    for one in timelines:
        trace = one.trace
        for step, span in zip(trace.steps, one.spans, strict=True):
            if span.wait < _CRUMB:
                continue
            cause = trace.lines[trace.steps[span.cause].line] if span.cause >= 0 else ""
            engine = "dma" if step.engine == DMA else ENGINES[step.engine]
            key = (engine, trace.lines[step.line], cause, span.reason)
            total[key] = total.get(key, 0.0) + span.wait
            count[key] = count.get(key, 0) + 1
    order = sorted(total, key=lambda key: (-total[key], key))
    return tuple(Wait(*key, total[key] * 1e-9, count[key]) for key in order)
