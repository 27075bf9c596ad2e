"""The profile of a kernel whose long affine loops were traced in part.

Everything that is added up (seconds, bytes, instructions, waits) is linear in the iterations of a steady loop: the
profile of the trace, plus for every loop the missing periods times what its last traced one added. What would help is
told in shares of the traced part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from twintrack.neuroncore.timing.accuracy import error_of, kind_of
from twintrack.neuroncore.timing.extrapolate import Extrapolated, Loop, extrapolate, without
from twintrack.neuroncore.timing.profile import DmaUse, EngineUse, Profile, Wait
from twintrack.neuroncore.timing.summary import Progress, Run, profile_of

__all__ = ["extended_profile"]


def extended_profile(
    run: Run, loops: Sequence[Loop], *, what_if: bool = True, progress: Progress | None = None
) -> Profile | None:
    """Time a run of which loops were shortened; ``None`` where they cannot be extrapolated.

    Args:
        run: of one core, with at least four iterations of each loop.
        loops: the shortened ones.
        what_if: whether it is timed again with one limit lifted at a time.
        progress: told after every timing.
    """
    if len(run.traces) != 1 or run.drop_reloads or any(use.spills for use in run.memory):
        return None
    trace = run.traces[0]
    found = extrapolate(trace, loops, run.generation)
    if found is None:
        return None
    whole = profile_of(replace(run, traces=(found.base,)), what_if=what_if, progress=progress)
    profile = whole
    for one in found.grown:
        shorter = replace(run, traces=(without(found.base, one.loop, one.period),))
        less = profile_of(shorter, what_if=False, progress=progress)
        profile = _grown(profile, whole, less, one.times)
    return _finished(profile, found)


def _grown(profile: Profile, whole: Profile, less: Profile, missing: int) -> Profile:
    """The profile with so many more periods, each adding what the last traced one did."""

    def more(value: Any, full: Any, short: Any) -> Any:
        return value + missing * (full - short)

    def field(name: str) -> Any:
        return more(*(getattr(one, name) for one in (profile, whole, less)))

    engines = {
        name: EngineUse(
            more(use.active_seconds, whole.engines[name].active_seconds, _active(less, name)),
            0.0,
            more(use.instructions, whole.engines[name].instructions, _count(less, name)),
        )
        for name, use in profile.engines.items()
    }
    names = ("active_seconds", "transfers", "bytes", "descriptors")
    moved = {name: more(*(getattr(one.dma, name) for one in (profile, whole, less))) for name in names}
    return replace(
        profile,
        seconds=field("seconds"),
        throttled_seconds=field("throttled_seconds"),
        flops=field("flops"),
        hbm_read_bytes=field("hbm_read_bytes"),
        hbm_written_bytes=field("hbm_written_bytes"),
        sbuf_bytes=field("sbuf_bytes"),
        engines=engines,
        dma=DmaUse(share=0.0, gigabytes_per_second=0.0, busy_share=profile.dma.busy_share, **moved),
        waits=_waits(profile, whole, less, missing),
        unpublished=_counts(profile, whole, less, missing),
    )


def _active(profile: Profile, name: str) -> float:
    return profile.engines[name].active_seconds if name in profile.engines else 0.0


def _count(profile: Profile, name: str) -> int:
    return profile.engines[name].instructions if name in profile.engines else 0


def _waits(profile: Profile, whole: Profile, less: Profile, missing: int) -> tuple[Wait, ...]:
    def key(one: Wait) -> tuple[str, str, str, str]:
        return one.engine, one.line, one.cause, one.reason

    full = {key(one): one for one in whole.waits}
    short = {key(one): one for one in less.waits}
    found = []
    for one in profile.waits:
        end, begin = full[key(one)], short.get(key(one))
        seconds = end.seconds - (begin.seconds if begin else 0.0)
        count = end.count - (begin.count if begin else 0)
        found.append(
            replace(one, seconds=one.seconds + missing * max(0.0, seconds), count=one.count + missing * count)
        )
    return tuple(sorted(found, key=lambda one: (-one.seconds, one.line, one.cause)))


def _counts(profile: Profile, whole: Profile, less: Profile, missing: int) -> Mapping[str, int]:
    return {
        name: count + missing * (whole.unpublished[name] - less.unpublished.get(name, 0))
        for name, count in profile.unpublished.items()
    }


def _finished(profile: Profile, found: Extrapolated) -> Profile:
    """Shares and rates from the grown figures."""
    time = found.seconds
    engines = {name: replace(use, share=use.active_seconds / time) for name, use in profile.engines.items()}
    dma = profile.dma
    rate = dma.bytes / dma.active_seconds * 1e-9 if dma.active_seconds else 0.0
    active = {name: use.active_seconds for name, use in engines.items()} | {"dma": dma.active_seconds}
    kind = kind_of(active)
    # what would help is judged on what was traced: a loop without one of its limits need not be steady there
    lifted = [replace(one, seconds=time * (1 - one.saved)) for one in profile.what_if]
    told = "; ".join(
        f"{one.times * one.period:,} of {one.loop.total:,} iterations of a loop are extrapolated, "
        f"at {one.seconds / one.period * 1e6:.4g} us each"
        for one in found.grown
    )
    return replace(
        profile,
        seconds=time,
        kind=kind,
        error=error_of(kind),
        engines=engines,
        dma=replace(dma, share=dma.active_seconds / time, gigabytes_per_second=rate),
        mfu=profile.flops / time / (profile.peak_tflops * 1e12),
        bandwidth_share=(profile.hbm_read_bytes + profile.hbm_written_bytes)
        / time
        / (profile.bandwidth_peak * 1e9),
        what_if=tuple(sorted(lifted, key=lambda one: (one.seconds, one.name))),
        notes=(*profile.notes, f"{told}; timelines show what was traced"),
    )
