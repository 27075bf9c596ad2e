"""From timelines to a profile: what each engine did, what was moved, what bound the kernel, what would help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twintrack.neuroncore.memory.capacity import MemoryUse
from twintrack.neuroncore.memory.generation import Generation
from twintrack.neuroncore.timing.accuracy import error_of, kind_of
from twintrack.neuroncore.timing.binding import binding_of
from twintrack.neuroncore.timing.cores import schedule_cores
from twintrack.neuroncore.timing.limits import limits, retime
from twintrack.neuroncore.timing.profile import DmaUse, EngineUse, Profile, Spilled, Wait, WhatIf
from twintrack.neuroncore.timing.schedule import DMA, Timeline
from twintrack.neuroncore.timing.trace import ENGINES, Trace

__all__ = ["Progress", "Run", "profile_of", "waits_of"]

_CRUMB = 1e-3
"""Waits below a picosecond are what rounding leaves."""
Progress = Callable[[str, int, int], None]
"""Told a stage, how much of it is done, and how much there is (0 where nobody knows)."""


@dataclass(frozen=True, slots=True)
class Run:
    """What a launch left to be timed.

    Args:
        kernel: its name.
        traces: of its cores, or of programs that run one after the other.
        memory: what each took on chip.
        generation: whose NeuronCore.
        together: whether the traces run at once.
    """

    kernel: str
    traces: tuple[Trace, ...]
    memory: tuple[MemoryUse, ...]
    generation: Generation
    together: bool = False


def profile_of(run: Run, *, what_if: bool = True, progress: Progress | None = None) -> Profile:
    """Time a run, add it up, and time it again with one limit lifted at a time.

    Args:
        run: with at least one instruction.
        what_if: whether it is timed again; without, ``Profile.what_if`` is empty.
        progress: told after every timing.
    """
    tell = progress or _silent
    tell("timing", 0, 0)
    p = run.traces[0].parameters
    timelines = schedule_cores(run.traces, run.generation, together=run.together)
    total = _longest if run.together else _sum
    seconds = total(timelines)
    cores = len(timelines) if run.together else 1
    time = seconds * cores
    engines = _engines(timelines, time)
    dma = _dma(timelines, time)
    lifted = _what_if(run, timelines, seconds, total, tell) if what_if else ()
    active = {name: one.active_seconds for name, one in engines.items()} | {"dma": dma.active_seconds}
    kind = kind_of(active)
    flops = _flops(timelines)
    hbm_read, hbm_written, sbuf = _bytes(timelines)
    waits = waits_of(timelines)
    return Profile(
        kernel=run.kernel,
        chip=run.generation.chip,
        cores=cores,
        programs=len(timelines),
        seconds=seconds,
        kind=kind,
        error=error_of(kind),
        engines=engines,
        dma=dma,
        flops=flops,
        mfu=flops / time / (p.tensor_peak * 1e12),
        peak_tflops=p.tensor_peak,
        peak_name=f"{p.tensor_peak:g} TFLOPS per core, bf16 dense (128 x 128 x 2 x {p.tensor_ghz:g} GHz)",
        hbm_read_bytes=hbm_read,
        hbm_written_bytes=hbm_written,
        sbuf_bytes=sbuf,
        bandwidth_share=(hbm_read + hbm_written) / time / (p.dma_peak * 1e9),
        bandwidth_peak=p.dma_peak,
        sbuf_peak=max((one.sbuf_peak for one in run.memory), default=0),
        sbuf_room=run.generation.sbuf_partition_bytes,
        psum_peak=max((one.psum_peak for one in run.memory), default=0),
        psum_room=run.generation.psum_partition_bytes,
        spills=tuple(
            Spilled(one.buffer.name, one.bytes, one.buffer.line) for use in run.memory for one in use.spills
        ),
        throttled_seconds=sum(one.throttled_ns for one in timelines) * 1e-9,
        binding=binding_of({name: value / time for name, value in active.items()}, lifted, waits),
        waits=waits,
        unpublished=_unpublished(timelines),
        what_if=lifted,
        notes=_notes(run, len(timelines)),
        timelines=tuple(timelines),
        starts=_starts(timelines, together=run.together),
    )


def _silent(stage: str, done: int, of: int) -> None:
    del stage, done, of


def _longest(timelines: Sequence[Timeline]) -> float:
    return max(one.seconds for one in timelines)


def _sum(timelines: Sequence[Timeline]) -> float:
    return sum(one.seconds for one in timelines)


def _starts(timelines: Sequence[Timeline], *, together: bool) -> tuple[float, ...]:
    if together:
        return (0.0,) * len(timelines)
    starts = [0.0]
    for one in timelines[:-1]:
        starts.append(starts[-1] + one.seconds)
    return tuple(starts)


def _notes(run: Run, programs: int) -> tuple[str, ...]:
    found = []
    if programs > 1 and not run.together:
        found.append(f"{programs} programs of the grid are timed one after the other on one core")
    if any(use.spills for use in run.memory):
        found.append("traffic of spilled tiles is not in the time: give the kernel smaller tiles first")
    return tuple(found)


def _engines(timelines: Sequence[Timeline], time: float) -> dict[str, EngineUse]:
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


def _dma(timelines: Sequence[Timeline], time: float) -> DmaUse:
    transfers: list[Any] = [step.work for one in timelines for step in one.trace.steps if step.engine == DMA]
    active = sum(end - start for one in timelines for start, end in one.dma_active) * 1e-9
    moved = sum(one.bytes for one in transfers)
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


def _flops(timelines: Sequence[Timeline]) -> int:
    tensor = ENGINES.index("tensor")
    works: list[Any] = [step.work for one in timelines for step in one.trace.steps if step.engine == tensor]
    return sum(work.flops for work in works)


def _bytes(timelines: Sequence[Timeline]) -> tuple[int, int, int]:
    """Read from HBM, written to HBM, and both in SBUF."""
    read = written = sbuf = 0
    for one in timelines:
        trace = one.trace
        sizes = [
            size if trace.buffers[region.buffer].region.value == "sbuf" else 0
            for region, size in zip(trace.regions, trace.region_bytes, strict=True)
        ]
        for step in trace.steps:
            sbuf += sum(sizes[region] for region in step.reads) + sum(sizes[region] for region in step.writes)
            if step.engine == DMA:
                work: Any = step.work
                stored = work.bytes if work.writes_hbm else 0
                written += stored
                read += work.hbm_bytes - stored
    return read, written, sbuf


def _unpublished(timelines: Sequence[Timeline]) -> dict[str, int]:
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


def _what_if(
    run: Run,
    timelines: Sequence[Timeline],
    seconds: float,
    total: Callable[[Sequence[Timeline]], float],
    tell: Progress,
) -> tuple[WhatIf, ...]:
    p = run.traces[0].parameters
    counts: Mapping[str, int] = Counter(
        "dma" if step.engine == DMA else ENGINES[step.engine] for one in run.traces for step in one.steps
    )
    asked = limits(p, timelines, counts)
    found = []
    for at, limit in enumerate(asked):
        tell("what would help", at, len(asked))
        took = retime(limit, run.traces, run.generation, p, together=run.together, total=total)
        found.append(WhatIf(limit.name, limit.text, took, 1 - took / seconds, limit.whole))
    tell("what would help", len(asked), len(asked))
    return tuple(sorted(found, key=lambda one: (one.seconds, one.name)))
