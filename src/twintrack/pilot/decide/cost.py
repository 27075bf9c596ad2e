"""The cost rule: Trainium must be cheaper by the share that the job asks for, within all errors.

``T`` is the total of the Trainium side and ``G`` that of the other, without faults and without the lines that only
one side tells of; ``c`` is the job's ``decision.cheaper_by``. The rule holds if the highest ``T`` is at most
``(1 - c)`` times the lowest ``G``; it is broken if the lowest ``T`` is above ``(1 - c)`` times the highest ``G``; else
the errors overlap and it is not known. A total that is unknown, or rests on a price that is too old, decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from twintrack.pilot.decide.evidence import TRAINIUM, Evidence
from twintrack.pilot.decide.records import Figure, Reason
from twintrack.pilot.ledger.ledger import like_totals
from twintrack.pilot.ledger.records import LineName, TrackLedger
from twintrack.quantity import Provenance, Quantity, combine, weakest

__all__ = [
    "CostSides",
    "Costed",
    "cost_reason",
    "cost_sides",
    "hourly_price",
    "input_named",
    "judge_cost",
    "machine_price",
    "name_of",
    "unknown_because",
]

_MACHINE_LINES: tuple[LineName, ...] = (
    "reserved resource",
    "compilation",
    "data transfer and loading",
    "resume",
    "abandoned trials",
)


@dataclass(frozen=True, slots=True)
class Costed:
    """One side's ledger, and its total as far as both sides tell of the same lines, without faults."""

    ledger: TrackLedger
    total: Quantity
    machine: float
    """Money of the machine lines: the larger of what the hours used cost and of what is reserved."""
    used: float
    """Money of the hours used, at the machine's price."""
    floor: float
    """Money of the hours reserved, which are paid used or not; 0 where none are."""

    def with_time(self, factor: float) -> float:
        """The total once the machine's time is multiplied: hours below those reserved save nothing."""
        return float(self.total.require()) - self.machine + max(factor * self.used, self.floor)

    def with_price(self, factor: float) -> float:
        """The total once the machine's price is multiplied."""
        return float(self.total.require()) + (factor - 1.0) * self.machine


@dataclass(frozen=True, slots=True)
class CostSides:
    """The two ledgers that the rule holds against each other; ``None`` where a side has none."""

    trainium: Costed | None
    other: Costed | None
    cheaper_by: float


def cost_sides(evidence: Evidence) -> CostSides:
    """The cheapest known ledger of each side; where none is known, the first that there is."""
    ledgers = [one for pilot in evidence.pilots for one in pilot.ledger.tracks]
    trainium = _cheapest([one for one in ledgers if one.track in TRAINIUM])
    other = _cheapest([one for one in ledgers if one.track not in TRAINIUM])
    if trainium is None or other is None:
        alone = [
            None if one is None else _costed(one, one.total_without_faults, ()) for one in (trainium, other)
        ]
        return CostSides(alone[0], alone[1], evidence.job.decision.cheaper_by)
    totals = like_totals(trainium, other)
    apart = (*trainium.left_out, *other.left_out)
    sides = [_costed(ledger, total, apart) for ledger, total in zip((trainium, other), totals, strict=True)]
    return CostSides(sides[0], sides[1], evidence.job.decision.cheaper_by)


def _costed(ledger: TrackLedger, total: Quantity, apart: Sequence[LineName]) -> Costed:
    lines = [line for line in ledger.lines if line.name in _MACHINE_LINES and line.name not in apart]
    machine = math.fsum(float(line.without_faults.value or 0.0) for line in lines)
    hourly = hourly_price(ledger)
    reserved = input_named(ledger, "reserved hours")
    floor = float(reserved.require()) * hourly if reserved is not None and reserved.known and hourly else 0.0
    used = float(ledger.time.value or 0.0) / 3600.0 * (hourly or 0.0)
    return Costed(
        ledger, total, machine, used if floor else machine, min(floor, machine) if machine else floor
    )


def input_named(ledger: TrackLedger, name: str) -> Quantity | None:
    """An input of the reserved resource's line, where it has one of that name."""
    lines = [line for line in ledger.lines if line.name == "reserved resource"]
    return next((one.value for line in lines for one in line.inputs if one.name == name), None)


def hourly_price(ledger: TrackLedger) -> float | None:
    """What an hour of all machines costs, in the ledger's currency; ``None`` where that is not known."""
    price, machines = machine_price(ledger), input_named(ledger, "machines")
    if price is None or not price.known:
        return None
    return float(price.require()) * float(
        machines.require() if machines is not None and machines.known else 1
    )


def machine_price(ledger: TrackLedger) -> Quantity | None:
    """The price of an hour of one machine, in the ledger's currency."""
    per_hour = f"{ledger.currency}/h"
    lines = [line for line in ledger.lines if line.name == "reserved resource"]
    found = [
        one.value for line in lines for one in line.inputs if one.value.unit == per_hour and one.value.known
    ]
    return found[0] if found else None


def _cheapest(ledgers: Sequence[TrackLedger]) -> TrackLedger | None:
    """The cheapest known one; else the first that has a run, else the first."""
    known = [one for one in ledgers if one.total.known]
    if known:
        return min(known, key=lambda one: float(one.total.require()))
    return min(ledgers, key=lambda one: ":" not in one.run, default=None)


def cost_reason(sides: CostSides) -> Reason:
    """Whether the rule holds, with both totals and the ratio."""
    name = "cost"
    trainium, other = sides.trainium, sides.other
    if trainium is None or other is None:
        return Reason(
            name, None, f"there is no run on {'the Trainium' if trainium is None else 'the other'} side"
        )
    figures = [Figure(f"total of {one.ledger.run}, without faults", one.total) for one in (trainium, other)]
    for one in (trainium, other):
        if text := _open(one):
            return Reason(name, None, f"the cost of {one.ledger.run} {text}", tuple(figures))
    if trainium.ledger.currency != other.ledger.currency:
        text = f"the sides are in {trainium.ledger.currency} and {other.ledger.currency}"
        return Reason(name, None, text, tuple(figures))
    ratio = combine(
        "Trainium total / other total", "", [trainium.total, other.total], lambda a, b: a / b if b else 0.0
    )
    figures.append(Figure("Trainium total over the other", ratio))
    holds = judge_cost(trainium.total.interval, other.total.interval, sides.cheaper_by)
    return Reason(name, holds, _text(holds, ratio, sides), tuple(figures))


def _open(one: Costed) -> str:
    """Why this side's total decides nothing; empty if it may."""
    if not one.total.known:
        return f"is unknown: {unknown_because(one)}"
    if one.ledger.stale:
        return f"rests on a price too old to decide: {one.ledger.stale[0]}"
    if not _rests_on_time(one.ledger):
        return f"rests on a {one.ledger.time.rests_on or one.ledger.time.kind} time, which is no cost"
    return ""


def name_of(ledger: TrackLedger) -> str:
    """How a ledger is named: its run, or its track where that did not run."""
    return ledger.run if ":" in ledger.run or "/" in ledger.run else f"{ledger.track} ({ledger.run})"


def unknown_because(one: Costed) -> str:
    """The reason of an unknown total: that of its time, else that of the first line that is unknown."""
    if not one.ledger.time.known:
        return one.ledger.time.source
    lines = [
        line for line in one.ledger.lines if not line.amount.known and line.name not in one.ledger.left_out
    ]
    return f"{lines[0].name}: {lines[0].amount.source}" if lines else one.total.source


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
