"""Whether a resumed run is the run that was never stopped, and if not, what was not restored."""

from __future__ import annotations

from collections.abc import Iterator

from twintrack.job.records import Job
from twintrack.pilot.summary_parts import Curve
from twintrack.pilot.summary_records import FailureKind, RunSummary, TrackSummary

__all__ = ["optimizer_lost", "repeated_alike", "resumed_alike"]

_Found = tuple[FailureKind, str]


def resumed_alike(job: Job, track: TrackSummary) -> Iterator[_Found]:
    """The interrupted run of a track against its reference."""
    if not job.stops or track.resume.to_the_bit is True:
        return
    state = "not" if track.resume.to_the_bit is False else "not shown to be"
    text = f"the resumed run is {state} equal to the bit: {track.resume.reason}"
    if track.reference is not None and track.interrupted is not None:
        text += optimizer_lost(track.reference, track.interrupted)
    yield ("absent" if track.resume.to_the_bit is None else "resume"), text
    for check in track.resume.checks:
        if check.name == "sample ids" and check.identical is False:
            yield (
                "data",
                f"the resumed run saw other samples than the run that was never stopped: {check.detail}",
            )


def repeated_alike(run: RunSummary) -> Iterator[_Found]:
    """Steps that a run did again against the first time."""
    if run.repeats.identical is False:
        at = run.repeats.step
        again = any(leg.resumed_from is not None and leg.resumed_from + 2 == at for leg in run.legs)
        why = "" if at is None or not again else _lost(at - 2)
        yield "resume", f"a repeated step is not equal to the bit: {run.repeats.detail}{why}"


def optimizer_lost(reference: RunSummary, resumed: RunSummary) -> str:
    """What says that the optimizer's state was not restored, or an empty string.

    The first step after a resume shows the weights that were restored: its loss and its gradient come before the
    update. If they, its samples and its learning rate are those of the reference, and the loss of the next step on the
    same samples is not, then what the update used besides them was not: the moments, or the master weights.
    """
    a, b = (dict(zip(run.loss.steps, run.loss.values, strict=True)) for run in (reference, resumed))
    first = next((step for step in sorted(a.keys() & b.keys()) if a[step].hex() != b[step].hex()), None)
    if first is None or not any(leg.resumed_from == first - 2 for leg in resumed.legs):
        return ""
    same_inputs = all(
        _at(getattr(reference, name), first - 1) == _at(getattr(resumed, name), first - 1)
        for name in ("gradient_norm", "learning_rate")
    )
    same_samples = all(_ids(reference, step) == _ids(resumed, step) for step in (first - 1, first))
    return _lost(first - 2) if same_inputs and same_samples else ""


def _lost(resumed_from: int) -> str:
    return (
        f"; the optimizer was not restored: step {resumed_from + 1}, the first after the resume from step "
        f"{resumed_from}, has the loss and gradient that it should, and the step after it has not"
    )


def _at(curve: Curve, step: int) -> str | None:
    found = dict(zip(curve.steps, curve.values, strict=True)).get(step)
    return None if found is None else found.hex()


def _ids(run: RunSummary, step: int) -> tuple[str, ...] | None:
    if len(run.sample_ids) != len(run.loss.steps):
        return None
    return dict(zip(run.loss.steps, run.sample_ids, strict=True)).get(step)
