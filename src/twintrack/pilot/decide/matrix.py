"""The matrix of five criteria: each scored 1 (stay on GPU) to 5 (Trainium) from measurements, else from an answer.

The scales are ours and stand here in full; a score from an answer says so. What is neither measured nor answered has no
score, and the sum over the matrix is then an interval.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from twintrack.pilot.compare.records import EMULATED
from twintrack.pilot.decide.evidence import Evidence
from twintrack.pilot.decide.records import Criterion, Figure
from twintrack.quantity import Provenance, Quantity, combine, total

__all__ = ["PASS_SCORE", "criteria", "score_range"]

PASS_SCORE = 15
"""Least sum of the five scores at which the matrix speaks for Trainium: 3, the middle of the scale, on average."""

_CHANGES = {"never": 5, "yearly": 5, "quarterly": 4, "monthly": 2, "weekly": 1}
_CUSTOM = {"none": 5, "few": 3, "many": 1}
_EXPERIENCE = {"none": 1, "trained": 3, "shipped": 5}
_FALLBACK = {"none": 1, "written": 3, "rehearsed": 5}


def criteria(evidence: Evidence) -> tuple[Criterion, ...]:
    """The five rows, in a fixed order."""
    return (
        _stability(evidence),
        _custom(evidence),
        _cycle(evidence),
        _experience(evidence),
        _fallback(evidence),
    )


def score_range(rows: tuple[Criterion, ...]) -> tuple[int, int]:
    """Lowest and highest sum that the known scores allow."""
    known = sum(row.score for row in rows if row.score is not None)
    unknown = sum(row.score is None for row in rows)
    return known + unknown, known + 5 * unknown


def _scale(value: float, limits: tuple[float, float, float, float]) -> int:
    """5 up to the first limit, 4 up to the second, and so on; 1 beyond the last."""
    return 5 - sum(value > limit for limit in limits)


def _answered(name: str, key: str, answer: str | None, scale: Mapping[str, int], question: str) -> Criterion:
    if answer is None:
        return Criterion(
            name, None, "unknown", f"not measured, and the job does not answer decision.{key}: {question}"
        )
    return Criterion(name, scale[answer], "answered", f"the job answers decision.{key} = '{answer}'")


def _stability(evidence: Evidence) -> Criterion:
    """Churn of graphs over the job's history: different programs per function over all its runs on a side.

    One run folder is no history: its programs say how shapes behave, not how often the model changes; from two on the
    count is used.
    """
    name = "model stability"
    keys: dict[str, set[str]] = {}
    folders: set[str] = set()
    for one in evidence.tracks(trainium=True):
        for run in one.runs:
            for compiled in run.compiles:
                keys.setdefault(compiled.program, set()).add(compiled.key)
                folders.add(one.folder)
    if len(folders) < 2:
        question = "how often do code, shapes or graph change?"
        return _answered(name, "model_changes", evidence.job.decision.model_changes, _CHANGES, question)
    churn = max(len(found) for found in keys.values()) - 1
    per_run = Quantity(
        churn / len(folders),
        "",
        Provenance.DERIVED,
        f"(most program keys of one function - 1) / run folders, over {len(folders)} run folders",
        rests_on=Provenance.MEASURED,
    )
    text = f"{churn} changed programs over {len(folders)} run folders"
    figures = (Figure("changed programs per run", per_run),)
    return Criterion(name, _scale(churn / len(folders), (0.0, 0.25, 0.5, 1.0)), "measured", text, figures)


def _custom(evidence: Evidence) -> Criterion:
    """Share of operators without a rule, which had to run on the host."""
    name = "code customisation"
    shares = [
        run.coverage.operators_share
        for one in evidence.tracks(trainium=True)
        for run in one.runs
        if run.coverage is not None
    ]
    known = [share for share in shares if share.known]
    if not known:
        question = "how many operators of your own does the model need?"
        return _answered(name, "custom_operators", evidence.job.decision.custom_operators, _CUSTOM, question)
    least = min(known, key=lambda share: share.require())
    outside = 1.0 - float(least.require()) / 100.0
    text = f"{outside:.2%} of the operators have no rule on the Trainium side"
    score = _scale(outside, (0.0, 0.001, 0.01, 0.05))
    return Criterion(name, score, "measured", text, (Figure("operators in compiled programs", least),))


def _cycle(evidence: Evidence) -> Criterion:
    """How long one set-up is used: compilation pays off over many steps of one shape.

    Measured on a device as the share that compiling anew takes of a whole run of the job; an emulation compiles nothing
    for a device, so there the answer counts.
    """
    name = "cycle length"
    share = _compile_share(evidence)
    if share is not None:
        text = f"compiling anew takes {share.require():.2%} of a run of {evidence.job.stop.steps} steps"
        score = _scale(float(share.require()), (0.01, 0.05, 0.2, 0.5))
        return Criterion(name, score, "measured", text, (Figure("share of compilation", share),))
    days = evidence.job.decision.cycle_days
    if days is None:
        text = "not measured, and the job does not answer decision.cycle_days: how long is one set-up used?"
        return Criterion(name, None, "unknown", text)
    figure = Quantity(days, "day", Provenance.ASSUMED, "the job's decision.cycle_days")
    score = 6 - _scale(days, (2.0, 7.0, 30.0, 90.0))
    return Criterion(
        name, score, "answered", f"one set-up is used for {days:g} days", (Figure("cycle", figure),)
    )


def _compile_share(evidence: Evidence) -> Quantity | None:
    """Largest share over the device runs of the Trainium side; ``None`` where there is none that tells of it."""
    found = []
    for one in evidence.tracks(trainium=True):
        run = one.track.reference
        if one.track.track in EMULATED or run is None or not run.compiles or not run.step_seconds.values:
            continue
        compiled = total(
            "sum of CompileDone.capture_seconds", "s", [each.capture_seconds for each in run.compiles]
        )
        step = Quantity.measured(statistics.median(run.step_seconds.values), "s", run.step_seconds.source)
        steps = evidence.job.stop.steps
        formula = "compilation / (compilation + stop.steps x median step)"
        found.append(
            combine(formula, "", [compiled, step], lambda c, s, n=steps: c / (c + n * s) if c else 0.0)
        )
    return max((one for one in found if one.known), key=lambda share: share.require(), default=None)


def _experience(evidence: Evidence) -> Criterion:
    answer = evidence.job.decision.team_experience
    return _answered(
        "team experience", "team_experience", answer, _EXPERIENCE, "what has the team done on Trainium?"
    )


def _fallback(evidence: Evidence) -> Criterion:
    """A checkpoint of the Trainium side that was restored by other programs is a fall-back that was rehearsed."""
    name = "difficulty of falling back"
    proofs = [kept for one in evidence.tracks(trainium=True) for kept in one.proofs]
    if proofs and all(kept.proof.passed for kept in proofs):
        text = f"{len(proofs)} checkpoint(s) of the Trainium side were restored by other programs"
        return Criterion(name, 5, "measured", text)
    if proofs:
        return Criterion(
            name, 1, "measured", "a checkpoint of the Trainium side could not be restored elsewhere"
        )
    return _answered(
        name, "fallback", evidence.job.decision.fallback, _FALLBACK, "is there a plan for going back?"
    )
