"""Stop signs and go signs: each looks at the evidence and says whether it stands, does not, or is not known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twintrack.errors import COMPILE_ERRORS
from twintrack.pilot.compare.records import EMULATED
from twintrack.pilot.decide.evidence import Evidence, TrackEvidence
from twintrack.pilot.decide.records import Figure, Sign
from twintrack.pilot.folders import run_label
from twintrack.pilot.summary_records import Failure
from twintrack.quantity import Provenance, Quantity

__all__ = ["CHURN_LIMIT", "HOST_SHARE_LIMIT", "go_signs", "stop_signs"]

CHURN_LIMIT = 0.05
"""Share of steps that may wait for another program of a function that had one."""
HOST_SHARE_LIMIT = 0.01
"""Share of FLOPs that may run outside of the compiled programs."""


_RULES = {
    "compilation fails on core operators": "core operators compile",
    "small changes invalidate the cache": "the cache survives small changes",
    "resume does not restore the optimizer": "resume restores the optimizer",
    "quality diverges at equal parameters": "quality holds at equal parameters",
    "a run did not do what the job says": "runs did what the job says",
}
"""What must hold so that a stop sign does not stand."""


def stop_signs(evidence: Evidence) -> tuple[Sign, ...]:
    """The four signs at which a job is not moved, and one that says whether the runs can be judged at all."""
    return tuple(sign(evidence) for sign in (_compilation, _cache, _optimizer, _quality, _runs))


def go_signs(evidence: Evidence) -> tuple[Sign, ...]:
    """The five signs that must all stand before capacity is asked for."""
    return tuple(
        sign(evidence) for sign in (_unchanged, _reproducible, _recoverable, _operating, _second_person)
    )


def _stop(name: str, stands: bool | None, text: str, figures: tuple[Figure, ...] = ()) -> Sign:
    return Sign("stop", name, _RULES[name], stands, text, figures)


def _go(name: str, stands: bool | None, text: str, figures: tuple[Figure, ...] = ()) -> Sign:
    return Sign("go", name, name, stands, text, figures)


def _list(found: tuple[tuple[str, Failure], ...]) -> str:
    folder, first = found[0]
    more = f" (and {len(found) - 1} more)" if found[1:] else ""
    return f"{run_label(folder, first.where)}: {first.what}{more}"


def _compilation(evidence: Evidence) -> Sign:
    """Compilation fails on core operators: a leg that died of it, or work that no compiled program could do."""
    name = "compilation fails on core operators"
    tracks = evidence.tracks(trainium=True)
    if not tracks:
        return _stop(name, None, "no run on the Trainium side")
    for one in tracks:
        for run in one.runs:
            died = [leg for leg in run.legs if leg.how == "error" and leg.error in COMPILE_ERRORS]
            if died:
                return _stop(name, True, f"{one.label}/{run.run}: {died[-1].message}")
    shares = [
        (one, run.coverage)
        for one in tracks
        for run in one.runs
        if run.run == "reference" and run.coverage is not None
    ]
    if not shares:
        return _stop(name, *_device_runs(tracks))
    figures = tuple(Figure(f"{one.label}: FLOPs in compiled programs", c.flops_share) for one, c in shares)
    for one, coverage in shares:
        share = coverage.flops_share.value
        if share is not None and share < 100.0 * (1.0 - HOST_SHARE_LIMIT):
            names = ", ".join(name for name, _ in coverage.host_operators[:3])
            return _stop(
                name,
                True,
                f"{one.label}: {100.0 - share:.3g} % of the FLOPs ran on the host: {names}",
                figures,
            )
    return _stop(name, False, "every core operator was compiled", figures)


def _device_runs(tracks: Sequence[TrackEvidence]) -> tuple[bool | None, str]:
    """A run that reached its end on a device compiled what it needed, though its log tells of no operator."""
    device = [one for one in tracks if one.track.track not in EMULATED]
    if device and all(one.track.reference is not None and one.track.reference.end for one in device):
        return False, f"{device[0].label} reached its end on the device"
    return None, "no event tells which operators were compiled"


def _cache(evidence: Evidence) -> Sign:
    """Small changes invalidate the cache: programs made again for the same function, step after step."""
    name = "small changes invalidate the cache"
    figures: list[Figure] = []
    worst: tuple[float, str, str] | None = None
    for one in evidence.tracks(trainium=True):
        steps = sum(float(run.steps_done.value or 0) for run in one.runs)
        if not any(run.compiles for run in one.runs) or not steps:
            continue
        churn = Quantity.derived(
            float(one.track.recompiles.require()) / steps,
            "",
            "recompiles after the first step over steps done, both runs",
            [one.track.recompiles, *(run.steps_done for run in one.runs)],
        )
        figures.append(Figure(f"{one.label}: recompiles per step", churn))
        later = [reason for reason in one.track.compile_reasons if reason.during == "later"]
        why = f"; most often: {max(later, key=lambda r: r.count.require()).reason}" if later else ""
        if worst is None or churn.require() > worst[0]:
            worst = (float(churn.require()), one.label, why)
    if worst is None and evidence.job.data.padding == "full" and evidence.tracks(trainium=True):
        text = 'no run tells of compilation, and shapes never change: data.padding = "full"'
        return _stop(name, False, text)
    if worst is None:
        return _stop(name, None, "no run on the Trainium side tells of compilation")
    share, label, why = worst
    text = f"{label}: another program after the first step in {share:.1%} of the steps{why}"
    return _stop(name, share > CHURN_LIMIT, text, tuple(figures))


def _at_resume(failure: Failure) -> bool:
    """Whether a failure tells of what a resume did not bring back."""
    return failure.kind == "resume" or (failure.kind == "schedule" and "resume" in failure.what)


def _optimizer(evidence: Evidence) -> Sign:
    """Resume does not restore the optimizer: a resumed run of the Trainium side is not the one never stopped."""
    name = "resume does not restore the optimizer"
    tracks = evidence.tracks(trainium=True)
    found = tuple((one.folder, failure) for one in tracks for failure in one.failures if _at_resume(failure))
    if found:
        return _stop(name, True, _list(found))
    answers = [one.track.resume.to_the_bit for one in tracks]
    if answers and all(answers):
        return _stop(name, False, "stopped, killed and resumed to the bit on the Trainium side")
    reason = next(
        (one.track.resume.reason for one in tracks if not one.track.resume.to_the_bit), "no run there"
    )
    return _stop(name, None, f"not shown on the Trainium side: {reason}")


def _quality(evidence: Evidence) -> Sign:
    """Quality diverges at equal parameters."""
    name = "quality diverges at equal parameters"
    found = evidence.failures_of(("quality",))
    if found:
        return _stop(name, True, _list(found))
    bad = [finding for finding in evidence.quality if finding.holds is False]
    if bad:
        return _stop(name, True, f"{bad[0].first} and {bad[0].second}: {bad[0].text}", bad[0].figures)
    known = [finding for finding in evidence.quality if finding.holds]
    if known and len(known) == len(evidence.quality):
        return _stop(
            name, False, f"{known[0].first} and {known[0].second}: {known[0].text}", known[0].figures
        )
    open_ones = [finding for finding in evidence.quality if finding.holds is None]
    return _stop(name, None, open_ones[0].text if open_ones else "there are not two sides to compare")


def _runs(evidence: Evidence) -> Sign:
    """The runs did not do what the job says, so they prove nothing."""
    name = "a run did not do what the job says"
    ours = {id(f) for one in evidence.tracks(trainium=True) for f in one.failures if _at_resume(f)}
    rest = [(folder, f) for folder, f in evidence.failures() if f.kind != "quality" and id(f) not in ours]
    found = tuple((folder, failure) for folder, failure in rest if failure.kind != "absent")
    if found:
        return _stop(name, True, _list(found))
    if evidence.refusals:
        return _stop(name, True, f"runs that may not be compared: {evidence.refusals[0]}")
    broken = [kept for pilot in evidence.pilots for kept in pilot.proofs if not kept.proof.passed]
    if broken:
        checks = [check for check in broken[0].proof.checks if not check.passed]
        what = f"{checks[0].name}: {checks[0].found}" if checks else "no check was made"
        return _stop(name, True, f"the conversion proved in {broken[0].file} failed: {what}")
    if rest or not evidence.pilots:
        return _stop(name, None, _list(tuple(rest)) if rest else "there are no runs")
    silent = [one.label for one in evidence.all_tracks() for run in one.runs if run.data is None]
    if silent:
        return _stop(name, None, f"{silent[0]} does not tell which data it saw")
    return _stop(name, False, "every run did the job's steps on the job's data")


def _unchanged(evidence: Evidence) -> Sign:
    """The model is unchanged: the same weights, adapters and code of the model on both sides."""
    name = "model unchanged"
    sides = [evidence.tracks(trainium=side) for side in (True, False)]
    if not all(sides):
        return _go(name, None, "there are not two sides to compare")
    models = {
        run.model.weights_digest
        for one in (*sides[0], *sides[1])
        for run in one.runs
        if run.model is not None
    }
    lacking = [one.label for one in (*sides[0], *sides[1]) if all(run.model is None for run in one.runs)]
    if len(models) > 1:
        return _go(name, False, "the sides started from different weights")
    host = [
        one
        for one in sides[0]
        for run in one.runs
        if run.coverage is not None and run.coverage.host_operators
    ]
    if host:
        return _go(name, False, f"{host[0].label}: operators had to run on the host")
    if lacking or not models:
        return _go(name, None, f"the weights of {lacking[0] if lacking else 'the runs'} are not told")
    return _go(name, True, "the same weights on both sides, and no operator rewritten or moved to the host")


def _each(
    evidence: Evidence, name: str, judge: Callable[[TrackEvidence], bool | None], texts: tuple[str, str, str]
) -> Sign:
    tracks = evidence.tracks(trainium=True)
    answers = [judge(one) for one in tracks]
    good, bad, unknown = texts
    if False in answers:
        return _go(name, False, f"{tracks[answers.index(False)].label}: {bad}")
    if not tracks or None in answers:
        return _go(
            name, None, f"{tracks[answers.index(None)].label}: {unknown}" if tracks else "no run there"
        )
    return _go(name, True, good)


def _reproducible(evidence: Evidence) -> Sign:
    """Outputs are reproducible: two runs of the Trainium side end in the same bits."""
    return _each(
        evidence,
        "outputs reproducible",
        lambda one: one.track.resume.to_the_bit,
        (
            "two runs on the Trainium side ended in the same bits",
            "two runs differ",
            "two runs are not on record",
        ),
    )


def _recoverable(evidence: Evidence) -> Sign:
    """A checkpoint is recoverable: resumed there, and restored on the other side by other programs."""
    name = "checkpoint recoverable"
    tracks = evidence.tracks(trainium=True)
    if not tracks:
        return _go(name, None, "no run there")
    for one in tracks:
        if one.track.resume.to_the_bit is False:
            return _go(name, False, f"{one.label}: a resumed run differs")
        if one.track.resume.to_the_bit is None:
            return _go(name, None, f"{one.label}: a resume is not shown: {one.track.resume.reason}")
    for one in tracks:
        if not any(kept.proof.passed for kept in one.proofs):
            text = "no converted checkpoint was restored; 'twintrack convert' does and proves it"
            return _go(name, None, f"{one.label}: {text}")
    return _go(name, True, "resumed to the bit, and a converted checkpoint was restored by other programs")


def _operating(evidence: Evidence) -> Sign:
    """Operating time is under control: hours are stated, and all that happens to a run was planned."""
    name = "operating time under control"
    hours = evidence.job.costs.operating_hours
    lost = [
        (one, run)
        for one in evidence.tracks(trainium=True)
        for run in one.runs
        if any(leg.how in ("error", "lost") for leg in run.legs)
    ]
    if lost:
        one, run = lost[0]
        return _go(name, False, f"{one.label}/{run.run}: a process ended without being asked to")
    if hours is None:
        return _go(
            name, None, "the job does not say how many hours of people a run takes (costs.operating_hours)"
        )
    figure = Quantity(hours, "h", Provenance.ASSUMED, "the job's costs.operating_hours")
    text = "hours are stated, and no process ended without being asked to"
    return _go(name, True, text, (Figure("hours of people per run", figure),))


def _second_person(evidence: Evidence) -> Sign:
    """Another person ran it again from the same inputs and got the same bits on the Trainium side."""
    name = "another person re-ran it"
    ends: dict[str, dict[str, str]] = {}
    for one in evidence.tracks(trainium=True):
        run = one.track.reference
        who = dict(run.environment).get("operator") if run is not None else None
        if run is not None and run.end is not None and run.end.state_digest and who:
            ends.setdefault(one.track.track, {})[who] = run.end.state_digest
    if any(len(by) > 1 and len(set(by.values())) > 1 for by in ends.values()):
        return _go(name, False, "two people ran it and got different results")
    if any(len(by) > 1 for by in ends.values()):
        return _go(name, True, "two people ran it and got the same bits")
    return _go(
        name, None, "the runs are of one person; give a run folder that somebody else made from the same job"
    )
