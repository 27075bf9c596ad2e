"""From evidence to a verdict: every rule is a reason, and the outcome follows from the reasons alone.

Refused, if a rule is broken; undecided, if none is broken and one is not known; accepted, if all hold.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from twintrack.pilot.decide.cost import cost_reason, cost_sides
from twintrack.pilot.decide.evidence import Evidence
from twintrack.pilot.decide.matrix import PASS_SCORE, criteria, score_range
from twintrack.pilot.decide.records import Criterion, Outcome, Reason, Sign, Verdict
from twintrack.pilot.decide.sensitivity import sensitivity
from twintrack.pilot.decide.signs import go_signs, stop_signs

__all__ = ["decide", "outcome_of"]


def outcome_of(answers: Sequence[bool | None]) -> Outcome:
    """The outcome that follows from whether each rule holds; without rules nothing is decided."""
    if False in answers:
        return Outcome.REFUSED
    return Outcome.UNDECIDED if None in answers or not answers else Outcome.ACCEPTED


def decide(evidence: Evidence) -> Verdict:
    """The verdict on a job. Equal evidence gives an equal verdict."""
    stops, goes, rows = stop_signs(evidence), go_signs(evidence), criteria(evidence)
    sides = cost_sides(evidence)
    reasons = (*_stops(stops), _fit(evidence), cost_reason(sides), _matrix(rows), *_goes(goes))
    outcome = outcome_of([reason.holds for reason in reasons])
    return Verdict(
        job=evidence.job.name,
        job_digest=evidence.job_digest,
        on=evidence.on,
        outcome=outcome,
        sentence=_sentence(outcome, reasons),
        reasons=reasons,
        would_change=_would_change(outcome, reasons),
        criteria=rows,
        signs=(*stops, *goes),
        sensitivity=sensitivity(evidence, sides, rows, reasons),
        software=evidence.software,
        runs=tuple(one.label for one in evidence.all_tracks()),
    )


def _stops(signs: Sequence[Sign]) -> tuple[Reason, ...]:
    return tuple(
        Reason(
            sign.rule,
            None if sign.stands is None else not sign.stands,
            sign.text,
            sign.figures,
        )
        for sign in signs
    )


def _goes(signs: Sequence[Sign]) -> tuple[Reason, ...]:
    return tuple(Reason(sign.rule, sign.stands, sign.text, sign.figures) for sign in signs)


def _fit(evidence: Evidence) -> Reason:
    """Whether the job fits the machines of the Trainium side."""
    name = "fits the machine"
    if not evidence.fits:
        return Reason(name, None, "the job was not qualified for a machine of the Trainium side")
    broken = [one for one in evidence.fits if one.fits is False]
    unknown = [one for one in evidence.fits if one.fits is None]
    shown = (broken or unknown or list(evidence.fits))[0]
    holds = False if broken else None if unknown else True
    return Reason(name, holds, f"{shown.track} on {shown.machine}: {shown.text}", shown.figures)


def _matrix(rows: tuple[Criterion, ...]) -> Reason:
    low, high = score_range(rows)
    name = "matrix"
    if low == high:
        text = f"{low} of 25 points, {PASS_SCORE} are needed"
        return Reason(name, low >= PASS_SCORE, text)
    missing = ", ".join(row.name for row in rows if row.score is None)
    text = f"{low} to {high} of 25 points, {PASS_SCORE} are needed; without a score: {missing}"
    return Reason(name, True if low >= PASS_SCORE else False if high < PASS_SCORE else None, text)


def _sentence(outcome: Outcome, reasons: Sequence[Reason]) -> str:
    if outcome is Outcome.ACCEPTED:
        cost = next(reason for reason in reasons if reason.rule == "cost")
        return f"Accepted: no stop sign stands, every go sign does, and {cost.text}."
    wanted = False if outcome is Outcome.REFUSED else None
    found = [reason for reason in reasons if reason.holds is wanted]
    order = sorted(found, key=lambda reason: reason.rule != "cost") if outcome is Outcome.UNDECIDED else found
    more = f" And {len(found) - 1} more." if found[1:] else ""
    text = textwrap.shorten(order[0].text, _LONGEST, placeholder=" …").rstrip(".")
    state = "is broken" if outcome is Outcome.REFUSED else "is not known"
    return f"{outcome.capitalize()}: '{order[0].rule}' {state}: {text}.{more}"


_LONGEST = 200
"""Characters of a reason in the verdict's sentence; the whole stands among the rules."""


def _would_change(outcome: Outcome, reasons: Sequence[Reason]) -> tuple[str, ...]:
    """What stands between this verdict and another: broken rules first, then those that are not known."""
    if outcome is Outcome.ACCEPTED:
        return tuple(f"{reason.rule}: if it no longer held" for reason in reasons)
    order = [reason for reason in reasons if reason.holds is False] + [r for r in reasons if r.holds is None]
    return tuple(
        f"{reason.rule}: {'mend' if reason.holds is False else 'find out'}: {reason.text}" for reason in order
    )
