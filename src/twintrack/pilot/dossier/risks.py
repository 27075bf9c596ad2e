"""Risks that follow from the evidence; none is made up, and each names what it was taken from."""

from __future__ import annotations

from collections.abc import Iterator

from twintrack.pilot.decide.evidence import Evidence
from twintrack.pilot.decide.records import Verdict
from twintrack.report.format import quantity_text

__all__ = ["risks"]

_MOST_FLIPS = 3


def risks(evidence: Evidence, verdict: Verdict) -> tuple[str, ...]:
    """What may go wrong: open and broken rules, prices, software that ends, inputs close to their turning point."""
    found = (*_rules(verdict), *_prices(evidence), *_software(verdict), *_flips(verdict), *_weights(evidence))
    return tuple(dict.fromkeys(found))


def _rules(verdict: Verdict) -> Iterator[str]:
    for reason in verdict.reasons:
        if reason.holds is not True:
            state = "broken" if reason.holds is False else "not known"
            yield f"Rule '{reason.rule}' is {state}: {reason.text}."


def _prices(evidence: Evidence) -> Iterator[str]:
    for ledger in (one for pilot in evidence.pilots for one in pilot.ledger.tracks):
        yield from (f"{ledger.run}: {text}." for text in (*ledger.stale, *ledger.remarks))


def _software(verdict: Verdict) -> Iterator[str]:
    for fact in verdict.software:
        if fact.side == "trainium" and fact.status != "supported":
            until = f" until {fact.until}" if fact.until else ""
            yield f"Software: {fact.what} is {fact.status}{until} ({fact.source}, {fact.date})."


def _flips(verdict: Verdict) -> Iterator[str]:
    near = [flip for flip in verdict.sensitivity if flip.at.known and flip.now.known]
    for flip in near[:_MOST_FLIPS]:
        now, at = quantity_text(flip.now), quantity_text(flip.at)
        yield f"Sensitive to {flip.name}: {now} now, the rule turns at {at}."


def _weights(evidence: Evidence) -> Iterator[str]:
    for one in evidence.all_tracks():
        for run in one.runs:
            if run.model is not None and run.model.note:
                yield f"Weights: {run.model.note.rstrip('.')}."
