"""What had to hold and did not. Silence is not success: a missing event is looked for and is a failure.

A run that was read from another program's log is held to what such a log must tell, its steps and losses, and to what
it does tell; the rest is unknown, which is no failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twintrack.job.digest import job_digest as digest_of
from twintrack.job.records import Job
from twintrack.pilot.summary_failures_data import samples_kept
from twintrack.pilot.summary_failures_resume import repeated_alike, resumed_alike
from twintrack.pilot.summary_failures_training import rate_kept, trained
from twintrack.pilot.summary_parts import RunName
from twintrack.pilot.summary_records import Comparison, Failure, FailureKind, RunSummary, TrackSummary

__all__ = ["failures", "track_failures"]

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
        found.extend(track_failures(job, job_digest, track))
    for one in comparisons:
        found.extend(_of_comparison(one))
    found.extend(_same_inputs(tracks))
    return tuple(found)


def track_failures(job: Job, job_digest: str, track: TrackSummary) -> Iterator[Failure]:
    """Everything that failed on one track: of each of its runs, and of what they say together."""
    told = track.reference is None or track.reference.told_here
    expected: list[tuple[RunName, RunSummary | None]] = [("reference", track.reference)]
    if (job.stops and told) or track.interrupted is not None:
        expected.append(("interrupted", track.interrupted))
    for name, run in expected:
        where = f"{track.track} · {name}"
        if run is None:
            yield Failure(where, "there are no events of this run", "absent")
            continue
        for kind, text in _of_run(job, run):
            yield Failure(where, text, kind)
        if any(digest != job_digest for digest in run.job_digests):
            yield Failure(where, "a process worked on another job", "inputs")
    if track.interrupted is not None:
        if track.interrupted.told_here:
            for kind, text in _stops_made(job, track.interrupted):
                yield Failure(f"{track.track} · interrupted", text, kind)
        for kind, text in resumed_alike(job, track):
            yield Failure(track.track, text, kind)


def _of_run(job: Job, run: RunSummary) -> Iterator[_Found]:
    yield from _ended(job, run)
    yield from trained(job, run)
    yield from rate_kept(job, run)
    yield from samples_kept(job, run)
    yield from repeated_alike(run)
    yield from _checkpoints(job, run)
    yield from _log(run)
    if run.told_here:
        yield from _told(job, run)


def _ended(job: Job, run: RunSummary) -> Iterator[_Found]:
    """Whether the run met its stop criterion and said so, with every step on record."""
    last = run.legs[-1]
    if last.how == "error":
        yield "training", f"its last process ended with an error: {last.message}"
    if run.end is None:
        if run.told_here:
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
    covered = run.loss.covered
    missing = [step for step in range(1, wanted + 1) if step not in covered]
    if missing:
        yield "steps", f"{len(missing)} of {wanted} steps are not on record, the first is step {missing[0]}"
    extra = sorted(step for step in covered if not 1 <= step <= wanted)
    if extra:
        yield "steps", f"step {extra[0]} is on record, and the job asks for {wanted}"


def _told(job: Job, run: RunSummary) -> Iterator[_Found]:
    """Whether the run told what it had to tell."""
    if run.data is None:
        yield "log", "no event tells of its data"
    if run.model is None:
        yield "log", "no event tells of its model"
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


def _checkpoints(job: Job, run: RunSummary) -> Iterator[_Found]:
    """Whether checkpoints were written, and the work done under the track's number rules."""
    for one in run.checkpoints:
        if one.outcome == "failed":
            yield "checkpoint", f"the checkpoint of step {one.step} could not be written: {one.detail}"
    if run.coverage is not None and not run.coverage.complete and not _host_allowed(job, run.track):
        yield (
            "rules",
            "part of the work ran outside the track's number rules, and the job does not allow that",
        )


def _log(run: RunSummary) -> Iterator[_Found]:
    """What was wrong in a log that the run was read from, one failure for each kind of defect."""
    for one in run.imported:
        spoiling = [defect for defect in one.defects if defect.spoils]
        for what in dict.fromkeys(defect.what for defect in spoiling):
            same = [defect for defect in spoiling if defect.what == what]
            line = f"{one.file}:{same[0].line}" if same[0].line else one.file
            more = f", and {len(same) - 1} more" if same[1:] else ""
            yield "log", f"{line}: {what.replace('_', ' ')}: {same[0].text}{more}"


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
