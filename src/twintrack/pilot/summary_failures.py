"""What had to hold and did not. Silence is not success: a missing event is looked for and is a failure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twintrack.job.digest import job_digest as digest_of
from twintrack.job.records import Job
from twintrack.pilot.summary_parts import RunName
from twintrack.pilot.summary_records import Comparison, Failure, FailureKind, RunSummary, TrackSummary

__all__ = ["failures"]

_Found = tuple[FailureKind, str]


def failures(
    job: Job, job_digest: str, tracks: Sequence[TrackSummary], comparisons: Sequence[Comparison]
) -> tuple[Failure, ...]:
    """Everything that failed, per run, per track and between tracks; empty means that the pilot passed."""
    found: list[Failure] = []
    if digest_of(job) != job_digest:
        found.append(Failure("pilot", "job.json is not the job that the run began with", "inputs"))
    if not tracks:
        found.append(Failure("pilot", "no track ran", "steps"))
    for track in tracks:
        found.extend(_of_track(job, job_digest, track))
    for one in comparisons:
        found.extend(_of_comparison(one))
    found.extend(_same_inputs(tracks))
    return tuple(found)


def _of_track(job: Job, job_digest: str, track: TrackSummary) -> Iterator[Failure]:
    expected: list[tuple[RunName, RunSummary | None]] = [("reference", track.reference)]
    if job.stops or track.interrupted is not None:
        expected.append(("interrupted", track.interrupted))
    for name, run in expected:
        where = f"{track.track} · {name}"
        if run is None:
            yield Failure(where, "there are no events of this run", "steps")
            continue
        for kind, text in (*_ended(job, run), *_did_work(job, run), *_told(job, run)):
            yield Failure(where, text, kind)
        if any(digest != job_digest for digest in run.job_digests):
            yield Failure(where, "a process worked on another job", "inputs")
    if track.interrupted is not None:
        for kind, text in _stops_made(job, track.interrupted):
            yield Failure(f"{track.track} · interrupted", text, kind)
        if job.stops and track.resume.to_the_bit is not True:
            state = "not" if track.resume.to_the_bit is False else "not shown to be"
            yield Failure(
                track.track, f"the resumed run is {state} equal to the bit: {track.resume.reason}", "resume"
            )


def _ended(job: Job, run: RunSummary) -> Iterator[_Found]:
    """Whether the run met its stop criterion and said so, with every step on record."""
    last = run.legs[-1]
    if last.how == "error":
        yield "training", f"its last process ended with an error: {last.message}"
    if run.end is None:
        yield "steps", f"it never said that it was done; its last process ended: {last.how}"
        wanted = job.stop.steps
    elif run.end.reason == "evaluation_loss":
        wanted = run.end.step
        limit = job.stop.evaluation_loss_below
        met = [
            e for e in run.evaluations if e.step == wanted and limit is not None and e.loss.require() < limit
        ]
        if not met:
            yield (
                "steps",
                f"it stopped at step {wanted} for its evaluation loss, and no such evaluation is on record",
            )
    else:
        wanted = job.stop.steps
        if run.end.step != wanted:
            yield "steps", f"it was done at step {run.end.step}, and the job asks for {wanted}"
    missing = sorted(set(range(1, wanted + 1)) - set(run.loss.steps))
    if missing:
        yield "steps", f"{len(missing)} of {wanted} steps are not on record, the first is step {missing[0]}"
    extra = [step for step in run.loss.steps if not 1 <= step <= wanted]
    if extra:
        yield "steps", f"step {extra[0]} is on record, and the job asks for {wanted}"


def _did_work(job: Job, run: RunSummary) -> Iterator[_Found]:
    """Whether training changed anything."""
    if run.model is not None and run.model.trainable_parameters.value == 0:
        yield "training", "no parameter was trainable"
    if run.model is not None and job.lora is not None and run.model.adapted_modules.value == 0:
        yield "adapter", "no module was adapted"
    norms = run.gradient_norm.values
    if norms and not any(norms):
        yield "training", "every gradient was zero: nothing was trained"
    if len(run.evaluations) > 1:
        first, last = run.evaluations[0], run.evaluations[-1]
        same = [(one.name, one.loss.value) for one in first.slices] == [
            (o.name, o.loss.value) for o in last.slices
        ]
        if first.loss.value == last.loss.value and same:
            steps = f"steps {first.step} and {last.step}"
            yield "training", f"evaluation loss is the same to the bit after {steps}: nothing was trained"


def _told(job: Job, run: RunSummary) -> Iterator[_Found]:
    """Whether the run told what it had to tell."""
    if run.data is None:
        yield "log", "no event tells of its data"
    if run.model is None:
        yield "log", "no event tells of its model"
    if run.repeats.identical is False:
        yield "resume", f"a repeated step is not equal to the bit: {run.repeats.detail}"
    for one in run.checkpoints:
        if one.outcome == "failed":
            yield "checkpoint", f"the checkpoint of step {one.step} could not be written: {one.detail}"
    if run.coverage is not None and not run.coverage.complete and not _host_allowed(job, run.track):
        yield (
            "rules",
            "part of the work ran outside the track's number rules, and the job does not allow that",
        )
    if run.end is None:
        return
    evaluated = {one.step for one in run.evaluations}
    if run.data is not None and run.data.evaluation_rows.value:
        for step, name in ((0, "before the first step"), (run.end.step, "after the last step")):
            if step not in evaluated:
                yield "evaluation", f"there is no evaluation {name}"
    answered = {one.prompt for one in run.answers if one.step == run.end.step}
    lacking = sum(prompt not in answered for prompt in job.evaluation.prompts)
    if lacking:
        yield (
            "evaluation",
            f"{lacking} of {len(job.evaluation.prompts)} prompts have no answer after the last step",
        )


def _host_allowed(job: Job, track: str) -> bool:
    return any(slot.allow_host for slot in job.tracks if track in slot.use)


def _stops_made(job: Job, run: RunSummary) -> Iterator[_Found]:
    """Whether every stop that the job asks for was made: at its step, or for a write at it or later."""
    left = [stop for stop in run.stops if stop.kind != "signal"]
    for asked in job.stops:
        for made in left:
            if made.kind == asked.kind and (
                made.step == asked.step or (asked.kind == "kill-in-write" and made.step >= asked.step)
            ):
                left.remove(made)
                break
        else:
            yield "stops", f"the stop '{asked.kind}' at step {asked.step} was not made"


def _of_comparison(one: Comparison) -> Iterator[Failure]:
    where = f"{one.first} and {one.second}"
    if one.within is False:
        yield Failure(
            where,
            f"their losses differ by {one.largest.require():.3g} at step {one.at_step}, "
            f"and the job tolerates {one.tolerance.require():g}",
            "quality",
        )
    elif one.within is None:
        yield Failure(where, "not every step of their loss curves can be compared", "steps")
    if one.samples.identical is False:
        yield Failure(where, f"they saw different samples: {one.samples.detail}", "data")


def _same_inputs(tracks: Sequence[TrackSummary]) -> Iterator[Failure]:
    """Whether all runs had the same data and the same base weights."""
    runs = [run for track in tracks for run in track.runs]
    if len({run.data.digest for run in runs if run.data is not None}) > 1:
        yield Failure("pilot", "the runs had different data", "inputs")
    if len({run.model.weights_digest for run in runs if run.model is not None}) > 1:
        yield Failure("pilot", "the runs started from different weights", "inputs")
