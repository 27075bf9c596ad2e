"""A capacity request as frozen records; every figure is a quantity, every text says what it was taken from."""

from __future__ import annotations

from dataclasses import dataclass

from twintrack.pilot.decide.records import Figure, Verdict
from twintrack.pilot.ledger.records import TrackLedger

__all__ = ["Dossier", "Duty", "Entry", "Part"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a part."""

    name: str
    text: str
    source: str
    """Where it stands: a key of the job, or what was run."""
    figures: tuple[Figure, ...] = ()
    required: bool = True

    @property
    def empty(self) -> bool:
        """Whether it says nothing; a figure that is unknown with its reason says something."""
        return not self.text.strip() and not self.figures


@dataclass(frozen=True, slots=True)
class Part:
    """A headed group of entries."""

    title: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Duty:
    """Who answers for what."""

    what: str
    who: str
    key: str


@dataclass(frozen=True, slots=True)
class Dossier:
    """All that a capacity request must contain."""

    job: str
    job_digest: str
    version: str
    on: str
    verdict: Verdict
    parts: tuple[Part, ...]
    ledgers: tuple[TrackLedger, ...]
    risks: tuple[str, ...]
    duties: tuple[Duty, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """Required entries that are empty, each with where it would be filled."""
        found = [
            f"{entry.name} ({entry.source})"
            for part in self.parts
            for entry in part.entries
            if entry.required and entry.empty
        ]
        return (
            *found,
            *(f"who answers for {duty.what} ({duty.key})" for duty in self.duties if not duty.who),
        )
