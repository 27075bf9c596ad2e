"""Two runs of one job against each other, from their run folders alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from twintrack.pilot.compare.checkpoints import optimizer_failure, optimizer_kept
from twintrack.pilot.compare.costs import Ledgers, costs, stale_prices
from twintrack.pilot.compare.figures import figures, starts
from twintrack.pilot.compare.losses import RESAMPLES, loss_test
from twintrack.pilot.compare.quality import judge
from twintrack.pilot.compare.read import LoadedRun, read_pair
from twintrack.pilot.compare.records import EMULATED, AnswerPair, RunComparison, RunSide, StartPair
from twintrack.pilot.compare.refuse import Sameness, require_comparable
from twintrack.pilot.compare.slices import compare_slices
from twintrack.pilot.folders import TrackRun
from twintrack.pilot.summary_checks import compare_tracks
from twintrack.pilot.summary_figures import Ledger
from twintrack.pilot.summary_programs import compile_reasons, recompile_churn
from twintrack.quantity import Provenance, Quantity
from twintrack.report.values import plain_values
from twintrack.storage import FileSystem

__all__ = ["compare_tracks_of", "comparison_json"]


def compare_tracks_of(
    first: TrackRun,
    second: TrackRun,
    fs: FileSystem,
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
    tolerance: float | None = None,
    ledgers: Ledgers = (None, None),
) -> RunComparison:
    """Compare a run, which is judged, with another; nothing but the two run folders is read.

    Args:
        first: the run that is compared with.
        second: the run that is judged.
        fs: file system.
        seed: of the bootstrap's draws.
        resamples: of the bootstrap.
        tolerance: relative difference of losses that is allowed; default: the smaller of the jobs' ``tolerances.loss``.
        ledgers: of the first and the second run's folder; without them there are no rows of cost.

    Raises:
        CompareError: if they are one run, or not of the same job, data and weights; it names what differs.
        RunFolderError: if a folder is no run folder, or one of another version.
        EventError: if an events file holds a whole line that is not an event.
        StorageError: if a file cannot be read.
    """
    a, b = read_pair(first, second, fs)
    same = require_comparable(a, b)
    a, b = (_with_checkpoint(one, fs) for one in (a, b))
    limit = _tolerance(a, b, tolerance)
    losses = replace(compare_tracks(a.run, b.run, float(limit.require())), tolerance=limit)
    test = loss_test(a.run.loss, b.run.loss, limit, resamples=resamples, seed=seed)
    slices = compare_slices(a, b, float(limit.require()))
    begun = starts(a, b)
    quality, reasons = judge(a, b, same, losses, test, slices)
    return RunComparison(
        first=_side(a, fs),
        second=_side(b, fs),
        tolerance=limit,
        same_data=same.data,
        same_weights=same.weights,
        differing_parts=same.differing_parts,
        losses=losses,
        test=test,
        slices=slices,
        answers=_answers(a, b),
        starts=begun,
        figures=figures(a, b),
        costs=costs(a, b, ledgers),
        remarks=(*_remarks(a, b, same, begun), *stale_prices(a, b, ledgers)),
        quality=quality,
        quality_reason=("not shown: " if quality is None else "") + "; ".join(reasons),
        quality_reasons=reasons,
    )


def comparison_json(comparison: RunComparison) -> dict[str, Any]:
    """The comparison as plain JSON values."""
    return {"format": 1, **plain_values(comparison)}


def _with_checkpoint(one: LoadedRun, fs: FileSystem) -> LoadedRun:
    failure = optimizer_failure(one.place, fs)
    return one if failure is None else replace(one, failures=(*one.failures, failure))


def _tolerance(a: LoadedRun, b: LoadedRun, given: float | None) -> Quantity:
    if given is not None:
        return Quantity(given, "", Provenance.ASSUMED, "the tolerance that was asked for")
    least = min(a.job.tolerances.loss, b.job.tolerances.loss)
    both = a.job.tolerances.loss == b.job.tolerances.loss
    reason = "the job's tolerances.loss" if both else "the smaller of the two jobs' tolerances.loss"
    return Quantity(least, "", Provenance.ASSUMED, reason)


def _side(one: LoadedRun, fs: FileSystem) -> RunSide:
    run = one.run
    return RunSide(
        name=one.name,
        label=one.label,
        track=run.track,
        job=one.job.name,
        job_digest=one.job_digest,
        emulated=run.track in EMULATED,
        imported=not run.told_here,
        data_digest=run.data.digest if run.data else None,
        weights_digest=run.model.weights_digest if run.model else None,
        steps_done=run.steps_done,
        loss=run.loss,
        evaluations=run.evaluations,
        failures=one.failures,
        to_the_bit=one.track.resume.to_the_bit,
        resume_reason=one.track.resume.reason,
        optimizer=optimizer_kept(one.place, fs),
        compile_reasons=compile_reasons(run.compiles, Ledger(run.source)),
        recompile_share=recompile_churn(run),
    )


def _answers(a: LoadedRun, b: LoadedRun) -> tuple[AnswerPair, ...]:
    """The answers after the last step that has any, prompt by prompt."""
    ours, theirs = ({one.prompt: one.text for one in run.run.answers} for run in (a, b))
    return tuple(AnswerPair(p, ours.get(p), theirs.get(p)) for p in dict.fromkeys([*ours, *theirs]))


def _remarks(a: LoadedRun, b: LoadedRun, same: Sameness, begun: tuple[StartPair, ...]) -> tuple[str, ...]:
    found = [
        f"{one.label} is an emulation: its seconds and its memory are those of the emulating machine, never Trainium's"
        for one in (a, b)
        if one.run.track in EMULATED
    ]
    found += [
        f"{one.label} was read from a log of another program; what that does not tell is unknown"
        for one in (a, b)
        if not one.run.told_here
    ]
    found += [pair.note for pair in begun if pair.state == "as it was" and "not comparable" in pair.note]
    if same.differing_parts:
        parts = ", ".join(same.differing_parts)
        found.append(f"the jobs differ in what training does not depend on: {parts}")
    return tuple(found)
