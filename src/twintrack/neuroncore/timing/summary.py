"""From timelines to a profile: what each engine did, what was moved, what bound the kernel, what would help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from twintrack.neuroncore.memory.buffer import Buffer
from twintrack.neuroncore.memory.capacity import MemoryUse
from twintrack.neuroncore.memory.generation import Generation
from twintrack.neuroncore.timing.accuracy import error_of, kind_of
from twintrack.neuroncore.timing.binding import binding_of
from twintrack.neuroncore.timing.cores import schedule_cores
from twintrack.neuroncore.timing.counts import (
    bytes_of,
    dma_of,
    engines_of,
    flops_of,
    unpublished_of,
    waits_of,
)
from twintrack.neuroncore.timing.limits import limits, retime
from twintrack.neuroncore.timing.profile import Profile, Spilled, WhatIf
from twintrack.neuroncore.timing.schedule import DMA, Timeline
from twintrack.neuroncore.timing.trace import ENGINES, Trace

__all__ = ["Progress", "Run", "profile_of"]

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
        drop_reloads: whether loads of what an earlier tile still holds are left out, as the compiler may.
    """

    kernel: str
    traces: tuple[Trace, ...]
    memory: tuple[MemoryUse, ...]
    generation: Generation
    together: bool = False
    drop_reloads: bool = False

    @property
    def spilled(self) -> tuple[tuple[Buffer, ...], ...]:
        """Per trace, the tiles that do not fit."""
        return tuple(tuple(one.buffer for one in use.spills) for use in self.memory)


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
    timelines = schedule_cores(
        run.traces,
        run.generation,
        together=run.together,
        spilled=run.spilled,
        drop_reloads=run.drop_reloads,
    )
    total = _longest if run.together else _sum
    seconds = total(timelines)
    cores = len(timelines) if run.together else 1
    time = seconds * cores
    engines = engines_of(timelines, time)
    dma = dma_of(timelines, time)
    lifted = _what_if(run, timelines, seconds, total, tell) if what_if else ()
    active = {name: one.active_seconds for name, one in engines.items()} | {"dma": dma.active_seconds}
    kind = kind_of(active)
    flops = flops_of(timelines)
    hbm_read, hbm_written, sbuf = bytes_of(timelines)
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
        unpublished=unpublished_of(timelines),
        what_if=lifted,
        notes=_notes(run, timelines),
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


def _notes(run: Run, timelines: Sequence[Timeline]) -> tuple[str, ...]:
    found = []
    programs = len(timelines)
    if programs > 1 and not run.together:
        found.append(f"{programs} programs of the grid are timed one after the other on one core")
    moved = sum(one.spill_bytes for one in timelines)
    if moved:
        found.append(f"{moved:,} bytes are moved for tiles that do not fit in SBUF; they are in the time")
    dropped = sum(one.dropped_loads for one in timelines)
    if run.drop_reloads:
        found.append(
            f"{dropped:,} loads are left out, because an earlier tile still holds what they would load"
        )
    return tuple(found)


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
        took = retime(
            limit,
            run.traces,
            run.generation,
            p,
            together=run.together,
            spilled=run.spilled,
            drop_reloads=run.drop_reloads,
            total=total,
        )
        found.append(WhatIf(limit.name, limit.text, took, 1 - took / seconds, limit.whole))
    tell("what would help", len(asked), len(asked))
    return tuple(sorted(found, key=lambda one: (one.seconds, one.name)))
