"""The cost rule: Trainium must be cheaper by the share that the job asks for, within all errors.

``T`` is the total of the Trainium side, ``G`` that of the other, ``c`` the job's ``decision.cheaper_by``. The rule
holds if the highest ``T`` is at most ``(1 - c)`` times the lowest ``G``; it is broken if the lowest ``T`` is above
``(1 - c)`` times the highest ``G``; else the errors overlap and it is not known. A total that is unknown, or rests on a
price that is too old, decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twintrack.pilot.decide.evidence import Evidence, TrackEvidence
from twintrack.pilot.decide.records import Figure, Reason
from twintrack.pilot.ledger.records import TrackLedger
from twintrack.quantity import Provenance, Quantity, combine, weakest

__all__ = ["COST_KINDS", "CostSides", "cost_reason", "cost_sides", "judge_cost"]

COST_KINDS = frozenset({Provenance.MEASURED, Provenance.SIMULATED, Provenance.PUBLISHED})
"""Kinds on which a time may rest if it is to become money."""


@dataclass(frozen=True, slots=True)
class CostSides:
    """The two ledgers that the rule holds against each other; ``None`` where a side did not run."""

    trainium: TrackLedger | None
    other: TrackLedger | None
    cheaper_by: float


def cost_sides(evidence: Evidence) -> CostSides:
    """The cheapest known ledger of each side; where none is known, the first that there is."""
    return CostSides(
        _cheapest(evidence.tracks(trainium=True)),
        _cheapest(evidence.tracks(trainium=False)),
        evidence.job.decision.cheaper_by,
    )


def _cheapest(tracks: Sequence[TrackEvidence]) -> TrackLedger | None:
    ledgers = [one.ledger for one in tracks if one.ledger is not None]
    known = [one for one in ledgers if one.total.known]
    if known:
        return min(known, key=lambda one: float(one.total.require()))
    return ledgers[0] if ledgers else None


def cost_reason(sides: CostSides) -> Reason:
    """Whether the rule holds, with both totals and the ratio."""
    name = "cost"
    trainium, other = sides.trainium, sides.other
    if trainium is None or other is None:
        return Reason(
            name, None, f"there is no run on {'the Trainium' if trainium is None else 'the other'} side"
        )
    figures = [Figure(f"total of {one.run}", one.total) for one in (trainium, other)]
    for one in (trainium, other):
        if not one.total.known:
            return Reason(name, None, f"the cost of {one.run} is unknown: {one.total.source}", tuple(figures))
        if one.stale:
            return Reason(
                name,
                None,
                f"the cost of {one.run} rests on a price too old to decide: {one.stale[0]}",
                tuple(figures),
            )
        if not _rests_on_time(one):
            text = f"the cost of {one.run} rests on a {one.time.rests_on or one.time.kind} time, which is no cost"
            return Reason(name, None, text, tuple(figures))
    if trainium.currency != other.currency:
        text = f"the sides are in {trainium.currency} and {other.currency}"
        return Reason(name, None, text, tuple(figures))
    ratio = combine(
        "Trainium total / other total", "", [trainium.total, other.total], lambda a, b: a / b if b else 0.0
    )
    figures.append(Figure("Trainium total over the other", ratio))
    holds = judge_cost(trainium.total.interval, other.total.interval, sides.cheaper_by)
    return Reason(name, holds, _text(holds, ratio, sides), tuple(figures))


def judge_cost(trainium: tuple[float, float], other: tuple[float, float], cheaper_by: float) -> bool | None:
    """The rule on two intervals, lowest and highest total of each side."""
    share = 1.0 - cheaper_by
    if trainium[1] <= share * other[0]:
        return True
    return False if trainium[0] > share * other[1] else None


def _rests_on_time(ledger: TrackLedger) -> bool:
    time = ledger.time
    return time.known and weakest([time.rests_on or time.kind, Provenance.PUBLISHED]) in (
        Provenance.PUBLISHED,
        Provenance.SIMULATED,
    )


def _text(holds: bool | None, ratio: Quantity, sides: CostSides) -> str:
    low, high = ratio.interval
    value = float(ratio.require())
    range_text = f"{value:.3g}" if low == high else f"{value:.3g} ({low:.3g} to {high:.3g})"
    asked = f", and must be at most {1.0 - sides.cheaper_by:.3g}" if sides.cheaper_by else ""
    sentence = f"Trainium costs {range_text} times the other side{asked}"
    return sentence if holds is not None else f"{sentence}: the errors are too wide to tell"
