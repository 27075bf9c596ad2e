"""Which input, moved by how much, flips the verdict: one input at a time, all others as they are.

A machine's time and its price stand as a product in every machine line, so a total is ``f x machine + rest`` when
either moves by the factor ``f``; the factor at which the cost rule changes is then exact. Where a side's time is not
known but its price is, the time at which the cost rule would turn is the same formula read backwards: the break-even.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from twintrack.pilot.decide.cost import Costed, CostSides, judge_cost
from twintrack.pilot.decide.evidence import Evidence
from twintrack.pilot.decide.matrix import PASS_SCORE, score_range
from twintrack.pilot.decide.records import NO_STOP_SIGN, Criterion, Flip, Outcome, Reason
from twintrack.pilot.ledger.records import TrackLedger
from twintrack.quantity import Provenance, Quantity

__all__ = ["sensitivity"]

_Judge = Callable[[float], bool | None]
"""Whether the cost rule holds when a side's machine part is multiplied by a factor."""


def sensitivity(
    evidence: Evidence, sides: CostSides, rows: tuple[Criterion, ...], reasons: Sequence[Reason]
) -> tuple[Flip, ...]:
    """Flips, the nearest first; inputs that change nothing at any value come last, with the reason."""
    found = [*_cost_flips(sides, reasons), *_tolerance(evidence, reasons), *_matrix_flips(rows, reasons)]
    return tuple(sorted(found, key=_distance))


def _distance(flip: Flip) -> float:
    if flip.at.value is None or flip.now.value is None or flip.now.value == 0:
        return math.inf
    return abs(math.log(abs(flip.at.value / flip.now.value))) if flip.at.value else math.inf


def _cost_flips(sides: CostSides, reasons: Sequence[Reason]) -> list[Flip]:
    if sides.trainium is None or sides.other is None:
        return []
    known = (sides.trainium.total.known, sides.other.total.known)
    if all(known):
        pair = sides.trainium, sides.other
        return [flip for moved in (0, 1) for flip in _moved(pair, moved, sides.cheaper_by, reasons)]
    if any(known):
        return _break_even(sides.trainium, sides.other, sides.cheaper_by, reasons)
    return []


def _moved_total(one: Costed, factor: float) -> tuple[float, float]:
    """The total's interval once the machine part is multiplied; relative errors stay."""
    total = float(one.total.require())
    low, high = one.total.interval
    if not total:
        return low, high
    scale = (total + (factor - 1.0) * one.machine) / total
    return low * scale, high * scale


def _price(ledger: TrackLedger) -> Quantity | None:
    per_hour = f"{ledger.currency}/h"
    found = [
        one.value
        for line in ledger.lines
        for one in line.inputs
        if one.value.unit == per_hour and one.value.known
    ]
    return found[0] if found else None


def _moved(
    pair: tuple[Costed, Costed], moved: int, cheaper_by: float, reasons: Sequence[Reason]
) -> list[Flip]:
    side = pair[moved]
    now = judge_cost(pair[0].total.interval, pair[1].total.interval, cheaper_by)

    def judged(factor: float) -> bool | None:
        intervals = [_moved_total(one, factor) if one is side else one.total.interval for one in pair]
        return judge_cost(intervals[0], intervals[1], cheaper_by)

    factor = _nearest_flip(judged, now)
    inputs = [(f"time of {side.ledger.run}", side.ledger.time)]
    price = _price(side.ledger)
    if price is not None:
        inputs.append((f"price of {side.ledger.machine or side.ledger.run}", price))
    return [_flip(name, value, factor, judged, reasons) for name, value in inputs]


def _nearest_flip(judged: _Judge, now: bool | None) -> float | None:
    """The factor nearest to 1, on a logarithmic scale, at which the rule answers something else; to 1 part in 10^4."""
    best: float | None = None
    for direction in (1.0, -1.0):
        far = next((step for step in _STEPS if judged(math.exp(direction * step)) is not now), None)
        if far is None:
            continue
        low, high = 0.0, far
        while high - low > 1e-4:
            middle = (low + high) / 2.0
            low, high = (low, middle) if judged(math.exp(direction * middle)) is not now else (middle, high)
        if best is None or high < abs(math.log(best)):
            best = math.exp(direction * high)
    return best


_STEPS = tuple(0.05 * 1.25**power for power in range(24))
"""Distances that are tried, as logarithms of a factor: from 5 % to more than e^8."""


def _flip(
    name: str, value: Quantity, factor: float | None, judged: _Judge, reasons: Sequence[Reason]
) -> Flip:
    if factor is None:
        reason = "no value of it alone changes the cost rule"
        return Flip(name, value, Quantity.unknown(value.unit, reason), None, reason)
    if not value.known:
        return Flip(name, value, Quantity.unknown(value.unit, value.source), None, "its value is not known")
    at = Quantity.derived(
        float(value.require()) * factor, value.unit, "value x factor at which the cost rule changes", [value]
    )
    becomes = _with(reasons, "cost", judged(factor))
    text = f"{'x' if factor >= 1 else '÷'}{max(factor, 1 / factor):.3g}: the cost rule is then {_said(judged(factor))}"
    return Flip(name, value, at, becomes, text)


def _with(reasons: Sequence[Reason], rule: str, holds: bool | None) -> Outcome:
    answers = [holds if reason.rule == rule else reason.holds for reason in reasons]
    return Outcome.REFUSED if False in answers else Outcome.UNDECIDED if None in answers else Outcome.ACCEPTED


def _said(holds: bool | None) -> str:
    return "not known" if holds is None else "kept" if holds else "broken"


def _break_even(trainium: Costed, other: Costed, cheaper_by: float, reasons: Sequence[Reason]) -> list[Flip]:
    """One side's total is known, the other's price is: the time at which the cost rule would turn."""
    if other.total.known:
        asked, known, share, side = trainium, other, 1.0 - cheaper_by, "at most"
    else:
        asked, known, share, side = other, trainium, 1.0 / (1.0 - cheaper_by), "at least"
    price = _price(asked.ledger)
    name = f"time of {asked.ledger.run}"
    if asked.ledger.time.known or price is None:
        return []
    low, high = known.total.interval
    money = share * (low if side == "at most" else high)
    at = Quantity.derived(
        money / float(price.require()) * 3600.0,
        "s",
        f"break-even: {share:g} x total of {known.ledger.run} / price of {asked.ledger.machine}, machine alone",
        [known.total, price],
    )
    text = f"with {side} this machine time the cost rule is kept, if nothing but the machine costs money"
    return [Flip(name, asked.ledger.time, at, _with(reasons, "cost", True), text)]


def _tolerance(evidence: Evidence, reasons: Sequence[Reason]) -> list[Flip]:
    """The job's tolerance of losses: below the largest difference that was seen, quality diverges."""
    seen = [
        one.largest for pilot in evidence.pilots for one in pilot.summary.comparisons if one.largest.known
    ]
    if not seen:
        return []
    largest = max(seen, key=lambda one: float(one.require()))
    now = Quantity(evidence.job.tolerances.loss, "", Provenance.ASSUMED, "the job's tolerances.loss")
    at = Quantity.derived(
        float(largest.require()), "", "largest relative difference of the losses", [largest]
    )
    rule = f"{NO_STOP_SIGN}quality diverges at equal parameters"
    kept = float(largest.require()) <= evidence.job.tolerances.loss
    becomes = _with(reasons, rule, not kept)
    text = "below it the losses are too far apart" if kept else "from it on the losses are close enough"
    return [Flip("tolerances.loss", now, at, becomes, text)]


def _matrix_flips(rows: tuple[Criterion, ...], reasons: Sequence[Reason]) -> list[Flip]:
    """Points that the matrix may lose, or lacks."""
    low, high = score_range(rows)
    kept = low >= PASS_SCORE
    now = Quantity(
        low if low == high or kept else high,
        "",
        Provenance.DERIVED,
        f"{'lowest' if kept else 'highest'} sum of the five scores that the known ones allow",
        rests_on=Provenance.ASSUMED,
    )
    target = PASS_SCORE - 1 if kept else PASS_SCORE
    at = Quantity(
        target, "", Provenance.DERIVED, "points at which the matrix turns", rests_on=Provenance.ASSUMED
    )
    turn = (
        f"below {PASS_SCORE} the matrix no longer speaks"
        if kept
        else f"from {PASS_SCORE} on the matrix speaks"
    )
    text = f"{low} to {high} points; {turn} for Trainium"
    return [Flip("points of the matrix", now, at, _with(reasons, "matrix", not kept), text)]
