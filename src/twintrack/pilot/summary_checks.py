"""Comparisons to the bit, inside a run and between its two runs; between tracks, within the tolerance."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from twintrack.events import AnyEvent, StepDone
from twintrack.pilot.summary_figures import Ledger, of_kind
from twintrack.pilot.summary_parts import Check, Curve
from twintrack.pilot.summary_records import Comparison, ResumeCheck, RunSummary
from twintrack.quantity import Provenance, Quantity

__all__ = ["compare_runs", "compare_tracks", "matched", "repeats"]


def _same(first: object, second: object) -> bool:
    """Equal; floats to the bit, so that 0.0 and -0.0 differ."""
    if isinstance(first, float) and isinstance(second, float):
        return first.hex() == second.hex()
    return first == second


def _check(
    name: str, first: Mapping[Hashable, object], second: Mapping[Hashable, object], sides: tuple[str, str]
) -> Check:
    """Compare entries that stand in both; entries that only one side has leave the answer open."""
    common = [key for key in first if key in second]
    compared = Quantity(
        len(common),
        "",
        Provenance.DERIVED,
        f"number of {name} that stand in both {sides[0]} and {sides[1]}",
        rests_on=Provenance.MEASURED,
    )
    for key in common:
        if not _same(first[key], second[key]):
            return Check(name, False, compared, f"first difference at {key}: {first[key]} and {second[key]}")
    lonely = [f"{key} only in {sides[0]}" for key in first if key not in second]
    lonely += [f"{key} only in {sides[1]}" for key in second if key not in first]
    if lonely:
        return Check(
            name, None, compared, f"{lonely[0]}" + (f" and {len(lonely) - 1} more" if lonely[1:] else "")
        )
    return Check(name, True, compared) if common else Check(name, None, compared, "nothing to compare")


def repeats(events: Sequence[AnyEvent], ledger: Ledger) -> Check:
    """Whether each step that was done again gave the bits of the time before."""
    before: dict[int, StepDone] = {}
    count = 0
    difference, at = "", None
    for event in of_kind(events, StepDone):
        earlier = before.get(event.step)
        if earlier is not None:
            count += 1
            if not difference and (difference := _step_difference(earlier, event)):
                at = event.step
        before[event.step] = event
    compared = ledger.derived(count, "", "number of StepDone for a step that an earlier leg had done")
    return Check("repeated steps", None if not count else not difference, compared, difference, at)


def _step_difference(first: StepDone, second: StepDone) -> str:
    for name in ("loss", "gradient_norm", "learning_rate"):
        a, b = getattr(first, name), getattr(second, name)
        if None not in (a, b) and not _same(a, b):
            return f"step {first.step}: {name} {a!r} in leg {first.leg}, {b!r} in leg {second.leg}"
    for name in ("sample_ids", "tokens", "loss_tokens"):
        told = getattr(first, name), getattr(second, name)
        if None not in told and [] not in told and told[0] != told[1]:
            return f"step {first.step}: {name} differ between leg {first.leg} and leg {second.leg}"
    return ""


def _points(curve: Curve) -> dict[Hashable, object]:
    points = zip(curve.steps, curve.means, curve.values, strict=True)
    return {f"step {s}" if n == 1 else f"{n} steps up to step {s}": value for s, n, value in points}


def _sample_ids(run: RunSummary) -> dict[Hashable, object]:
    """Sample ids of the steps whose ids are on record."""
    return {f"step {step}": ids for step, ids in zip(run.loss.steps, run.sample_ids, strict=True) if ids}


def _evaluations(run: RunSummary) -> dict[Hashable, object]:
    found: dict[Hashable, object] = {}
    for one in run.evaluations:
        found[f"evaluation of step {one.step}"] = one.loss.require()
        for part in one.slices:
            found[f"slice {part.name!r} of step {one.step}"] = part.loss.require()
    return found


def _answers(run: RunSummary) -> dict[Hashable, object]:
    return {f"answer to {one.prompt!r} after step {one.step}": repr(one.text) for one in run.answers}


def _state(run: RunSummary) -> dict[Hashable, object]:
    return {"the end": run.end.state_digest} if run.end and run.end.state_digest else {}


def compare_runs(reference: RunSummary | None, interrupted: RunSummary | None) -> ResumeCheck:
    """The interrupted run against the reference: to the bit if it was stopped and everything is equal."""
    if reference is None or interrupted is None:
        missing = "reference" if reference is None else "interrupted"
        return ResumeCheck(None, f"there is no {missing} run", ())
    a, b, sides = reference, interrupted, ("the reference", "the interrupted run")
    checks = [
        _check("losses", _points(a.loss), _points(b.loss), sides),
        _check("gradient norms", _points(a.gradient_norm), _points(b.gradient_norm), sides),
        _check("sample ids", _sample_ids(a), _sample_ids(b), sides),
        _check("final states", _state(a), _state(b), sides),
    ]
    if a.evaluations or b.evaluations:
        checks.append(_check("evaluations", _evaluations(a), _evaluations(b), sides))
    if a.answers or b.answers:
        checks.append(_check("answers", _answers(a), _answers(b), sides))
    if b.repeats.identical is not None:
        checks.append(b.repeats)
    wrong = [check for check in checks if check.identical is False]
    if wrong:
        return ResumeCheck(False, f"{wrong[0].name}: {wrong[0].detail}", tuple(checks))
    if not b.restarts.known:
        return ResumeCheck(None, "the imported log does not say whether it was interrupted", tuple(checks))
    if not b.restarts.value:
        return ResumeCheck(None, "the interrupted run was never interrupted", tuple(checks))
    unknown = [check for check in checks if check.identical is None]
    if unknown:
        return ResumeCheck(None, f"{unknown[0].name}: {unknown[0].detail}", tuple(checks))
    return ResumeCheck(True, "", tuple(checks))


def _relative(first: float, second: float) -> float:
    """``|a - b| / max(|a|, |b|)``; 0 for two zeros."""
    largest = max(abs(first), abs(second))
    return abs(first - second) / largest if largest else 0.0


def matched(first: Curve, second: Curve) -> tuple[tuple[int, float, float], ...]:
    """Step and both values of each point that two curves can be compared at, in the order of ``first``.

    Points of one step that are means of equally many steps are compared as they are. Where one is a mean of more, the
    other's values of those very steps are averaged, if all are on record; a point that finds no partner is left out.
    """
    left, right = _by_step(first), _by_step(second)
    found = []
    for step in sorted(left.keys() & right.keys()):
        (a, many), (b, others) = left[step], right[step]
        if many != others:
            wide = max(many, others)
            a_mean, b_mean = _mean(left, step, wide), _mean(right, step, wide)
            if a_mean is None or b_mean is None:
                continue
            a, b = a_mean, b_mean
        found.append((step, a, b))
    return tuple(found)


def _by_step(curve: Curve) -> dict[int, tuple[float, int]]:
    points = zip(curve.steps, curve.values, curve.means, strict=True)
    return {step: (value, count) for step, value, count in points}


def _mean(points: Mapping[int, tuple[float, int]], step: int, count: int) -> float | None:
    """Mean over ``count`` steps up to ``step``, from the points that tell of exactly those."""
    total, left = 0.0, count
    while left > 0 and (point := points.get(step - (count - left))) is not None:
        value, width = point
        total, left = total + value * width, left - width
    return total / count if left == 0 else None


def compare_tracks(first: RunSummary, second: RunSummary, tolerance: float) -> Comparison:
    """Loss curves of two reference runs: ``|a - b| / max(|a|, |b|)`` by step, against the job's tolerance."""
    formula = f"|a − b| / max(|a|, |b|) of the losses in {first.source} and {second.source}"
    both = matched(first.loss, second.loss)
    steps = tuple(step for step, _, _ in both)
    values = tuple(_relative(a, b) for _, a, b in both)
    limit = Quantity(tolerance, "", Provenance.ASSUMED, "the job's tolerances.loss")
    whole = bool(steps) and first.loss.covered == second.loss.covered == _reach(both, first.loss, second.loss)
    largest = max(values, default=None)
    return Comparison(
        first=first.track,
        second=second.track,
        largest=Quantity.unknown("", f"no step in both {first.source} and {second.source}")
        if largest is None
        else Quantity(largest, "", Provenance.DERIVED, f"largest {formula}", rests_on=Provenance.MEASURED),
        at_step=None if largest is None else steps[values.index(largest)],
        tolerance=limit,
        within=False if largest is not None and largest > tolerance else True if whole else None,
        difference=Curve("", Provenance.DERIVED, formula, steps, values),
        evaluation_difference=_evaluation_difference(first, second),
        samples=_check("sample ids", _sample_ids(first), _sample_ids(second), (first.track, second.track)),
    )


def _reach(both: Sequence[tuple[int, float, float]], first: Curve, second: Curve) -> frozenset[int]:
    """Every step that the compared points tell of."""
    left, right = _by_step(first), _by_step(second)
    spans = ((step, max(left[step][1], right[step][1])) for step, _, _ in both)
    return frozenset(step - back for step, count in spans for back in range(count))


def _evaluation_difference(first: RunSummary, second: RunSummary) -> Quantity:
    if not first.evaluations or not second.evaluations:
        return Quantity.unknown("", "no evaluation in one of the runs")
    a, b = first.evaluations[-1], second.evaluations[-1]
    if a.step != b.step:
        return Quantity.unknown("", f"the last evaluations are of steps {a.step} and {b.step}")
    return Quantity.derived(
        _relative(a.loss.require(), b.loss.require()),
        "",
        f"|a − b| / max(|a|, |b|) of the evaluation losses in {first.source} and {second.source}",
        [a.loss, b.loss],
        conditions=f"step {a.step}",
    )
