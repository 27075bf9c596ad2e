"""The last evaluations of two runs, slice by slice, and what their means hide."""

from __future__ import annotations

from collections.abc import Iterator

from twintrack.pilot.compare.read import LoadedRun
from twintrack.pilot.compare.records import SliceComparison, SliceFinding, SliceRow
from twintrack.pilot.summary_parts import EvaluationSummary, SliceLoss
from twintrack.quantity import Quantity

__all__ = ["compare_slices"]

MEAN = "mean over all tokens"


def compare_slices(first: LoadedRun, second: LoadedRun, tolerance: float) -> SliceComparison | None:
    """The last evaluations of both, the worst slice first; ``None`` where they are not of one step.

    A slice that is worse in the second run by more than the tolerance breaks the quality, whatever the mean does; so
    does, in either run, a worst slice that training made worse by more than that while the mean got better. Smaller
    ones are said.
    """
    if not first.run.evaluations or not second.run.evaluations:
        return None
    a, b = first.run.evaluations[-1], second.run.evaluations[-1]
    if a.step != b.step:
        return None
    rows = _rows(a, b)
    mean = _row(MEAN, Quantity.unknown("", "over all slices"), a.loss, b.loss, a.step)
    findings = [*_between(first.label, second.label, mean, rows, tolerance)]
    for one in (first, second):
        findings += _within(one, tolerance)
    return SliceComparison(a.step, mean, rows, tuple(findings))


def _rows(a: EvaluationSummary, b: EvaluationSummary) -> tuple[SliceRow, ...]:
    ours, theirs = ({part.name: part for part in one.slices} for one in (a, b))
    names = sorted(
        ours.keys() | theirs.keys(),
        key=lambda name: (-max(_loss(one.get(name)) for one in (ours, theirs)), name),
    )
    return tuple(
        _row(
            name,
            (ours.get(name) or theirs[name]).tokens,
            _part(ours.get(name), name),
            _part(theirs.get(name), name),
            a.step,
        )
        for name in names
    )


def _loss(part: SliceLoss | None) -> float:
    return float("-inf") if part is None else float(part.loss.require())


def _part(part: SliceLoss | None, name: str) -> Quantity:
    return Quantity.unknown("", f"no slice {name!r} in its last evaluation") if part is None else part.loss


def _row(name: str, tokens: Quantity, first: Quantity, second: Quantity, step: int) -> SliceRow:
    value = 0.0
    if first.known and second.known:
        value = _relative(float(first.require()), float(second.require()))
    formula = f"(b − a) / a of the evaluation losses, {name}"
    difference = Quantity.derived(value, "", formula, [first, second], conditions=f"step {step}")
    return SliceRow(name, tokens, first, second, difference)


def _relative(a: float, b: float) -> float:
    """How much worse ``b`` is than ``a``, as a share of ``a``; of 0 the larger one stands in as the base."""
    base = abs(a) or abs(b)
    return (b - a) / base if base else 0.0


def _between(
    first: str, second: str, mean: SliceRow, rows: tuple[SliceRow, ...], tolerance: float
) -> Iterator[SliceFinding]:
    """Slices, and the mean, that are worse in the second run than in the first."""
    better = float(mean.difference.value or 0.0) < 0.0
    while_mean = (
        f", while the mean is {_percent(-float(mean.difference.value or 0.0))} better" if better else ""
    )
    for place, row in enumerate((*rows, mean)):
        worse = row.difference.value
        if worse is None or not (worse > tolerance or (worse > 0.0 and better and place == 0)):
            continue
        what = (
            "the mean"
            if row is mean
            else f"the worst slice {row.name!r}"
            if place == 0
            else f"slice {row.name!r}"
        )
        text = (
            f"{what} is {_percent(worse)} worse on {second} than on {first} ({_number(row.first)} and "
            f"{_number(row.second)}){'' if row is mean else while_mean}"
        )
        yield SliceFinding(text, worse > tolerance)


def _within(one: LoadedRun, tolerance: float) -> Iterator[SliceFinding]:
    """Whether training made a run's mean better and the slice that is its worst at the end worse."""
    if len(one.run.evaluations) < 2:
        return
    before, after = one.run.evaluations[0], one.run.evaluations[-1]
    earlier = {part.name: part for part in before.slices}
    if not after.slices or after.slices[0].name not in earlier:
        return
    worst = after.slices[0]
    rose = _relative(_loss(earlier[worst.name]), _loss(worst))
    fell = _relative(float(before.loss.require()), float(after.loss.require()))
    if fell < 0.0 < rose:
        text = (
            f"training made the worst slice {worst.name!r} of {one.label} {_percent(rose)} worse (from "
            f"{_number(earlier[worst.name].loss)} to {_number(worst.loss)}), while the mean got {_percent(-fell)} "
            "better"
        )
        yield SliceFinding(text, rose > tolerance)


def _number(loss: Quantity) -> str:
    return f"{float(loss.require()):.4g}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
