"""Which input, moved by how much, flips the verdict: one input at a time, all others as they are.

A machine costs the larger of the hours used and the hours reserved, times its price: a shorter run saves nothing below
what is reserved. Where a side's time is not known but its price is, the time at which the cost rule would turn is the
same formula read backwards: the break-even.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from twintrack.pilot.decide.cost import Costed, CostSides, hourly_price, judge_cost, machine_price, name_of
from twintrack.pilot.decide.evidence import Evidence
from twintrack.pilot.decide.matrix import PASS_SCORE, score_range
from twintrack.pilot.decide.records import Criterion, Flip, Outcome, Reason
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


def _moved(
    pair: tuple[Costed, Costed], moved: int, cheaper_by: float, reasons: Sequence[Reason]
) -> list[Flip]:
    side = pair[moved]
    now = judge_cost(pair[0].total.interval, pair[1].total.interval, cheaper_by)

    def judge(total: Callable[[float], float]) -> _Judge:
        def judged(factor: float) -> bool | None:
            intervals = [_scaled(one, total(factor)) if one is side else one.total.interval for one in pair]
            return judge_cost(intervals[0], intervals[1], cheaper_by)

        return judged

    name, price = name_of(side.ledger), machine_price(side.ledger)
    inputs = [(f"time of {name}", side.ledger.time, judge(side.with_time))]
    if price is not None:
        inputs.append((f"price of {side.ledger.machine or name}", price, judge(side.with_price)))
    return [
        _flip(label, value, _nearest_flip(judged, now), judged, reasons) for label, value, judged in inputs
    ]


def _scaled(one: Costed, total: float) -> tuple[float, float]:
    """The interval of a total that moved; relative errors stay."""
    value = float(one.total.require())
    low, high = one.total.interval
    return (low * total / value, high * total / value) if value else (total, total)


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
    """One side's total is known, the other's price is: the machine time at which the cost rule would turn."""
    if other.total.known:
        asked, known, share, side = trainium, other, 1.0 - cheaper_by, "at most"
    else:
        asked, known, share, side = other, trainium, 1.0 / (1.0 - cheaper_by), "at least"
    hourly = hourly_price(asked.ledger)
    if asked.ledger.time.known or not hourly:
        return []
    low, high = known.total.interval
    others = _other_lines(asked.ledger)
    money = share * (low if side == "at most" else high) - math.fsum(float(one.require()) for one in others)
    label, now = f"time of {name_of(asked.ledger)}", asked.ledger.time
    if side == "at most" and money < asked.floor:
        text = "what is reserved and all else that is known costs more already, however short the run is"
        return [Flip(label, now, Quantity.unknown("s", text), _with(reasons, "cost", False), text)]
    formula = (
        f"break-even: ({share:g} x total of {name_of(known.ledger)} - known lines other than the machine's) "
        f"/ price of an hour of {asked.ledger.machine}"
    )
    price = machine_price(asked.ledger)
    inputs = [known.total, *others, *([] if price is None else [price])]
    at = Quantity.derived(max(0.0, money) / hourly * 3600.0, "s", formula, inputs)
    text = f"with {side} this machine time the cost rule is kept, if nothing that is unknown costs more"
    return [Flip(label, now, at, _with(reasons, "cost", True), text)]


def _other_lines(ledger: TrackLedger) -> list[Quantity]:
    """Known amounts that do not follow from the machine's time."""
    return [
        line.amount
        for line in ledger.lines
        if line.name in ("cache storage", "operating time")
        and line.amount.known
        and line.name not in ledger.left_out
    ]


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
    rule = "quality holds at equal parameters"
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
