"""What is published about the support of the software that a track rests on: status, dates, source."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from twintrack.hardware.records import Source
from twintrack.hardware.table import Table, parse_date

__all__ = ["Side", "SupportFact", "SupportStatus", "read_support_fact"]


class Side(StrEnum):
    """The side of a comparison that a component belongs to."""

    TRAINIUM = "trainium"
    GPU = "gpu"


class SupportStatus(StrEnum):
    """How far a component is supported, as its publisher says."""

    SUPPORTED = "supported"
    BETA = "beta"
    """Offered for trial, interfaces may change."""
    MAINTENANCE = "maintenance"
    """Security and critical corrections only."""
    ENDED = "ended"
    UNKNOWN = "unknown"
    """No statement found, or none for the day that is asked about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportFact:
    """What a source says about one component.

    Args:
        key: name of the row, unique.
        component: what it is about, with the version where the source names one.
        side: the side that it belongs to.
        status: how far it is supported from ``since`` to ``until``.
        statement: what the source says, in our words.
        since: first day, month or year of that status; ``None`` where the source gives none.
        until: last day, month or year of that status; ``None`` while the source names no end.
        as_of: when the source was published or last changed: what it cannot know happened later. ``None`` where
            that is not known.
        source: where it stands.
    """

    key: str
    component: str
    side: Side
    status: SupportStatus
    statement: str
    since: str | None
    until: str | None
    as_of: str | None
    source: Source

    def status_on(self, day: datetime.date) -> SupportStatus:
        """The status on a day: what the source says, *ended* past ``until``, *unknown* before ``since``.

        A status that follows another one (maintenance, then ended) is a fact of its own; past ``until`` that fact is
        the better answer.
        """
        first = parse_date(self.since) if self.since else None
        last = parse_date(self.until) if self.until else None
        if first and day < first[0]:
            return SupportStatus.UNKNOWN
        if last and day > last[1]:
            return SupportStatus.ENDED
        return self.status


def read_support_fact(table: Table, sources: Mapping[str, Source]) -> SupportFact:
    """One row of a data file.

    Raises:
        CatalogueError: for a missing or unknown key, an end before the beginning, an end of the status *ended*; file
            and key are named.
    """
    status = SupportStatus(table.choice("status", SupportStatus))
    since = table.date("since") if table.has("since") else None
    until = table.date("until") if table.has("until") else None
    if since and until and _days(until)[1] < _days(since)[0]:
        raise table.refuse(f"an end on or after the beginning, {since}", until, "until")
    if status is SupportStatus.ENDED and until:
        raise table.refuse("no end for the status ended: since says when it began", until, "until")
    source = table.source(sources)
    fact = SupportFact(
        key=table.text("key"),
        component=table.text("component"),
        side=Side(table.choice("side", Side)),
        status=status,
        statement=table.text("statement"),
        since=since,
        until=until,
        as_of=source.date,
        source=source,
    )
    table.close()
    return fact


def _days(text: str) -> tuple[datetime.date, datetime.date]:
    days = parse_date(text)
    if days is None:  # Table.date has read it
        raise ValueError(f"not a date: {text!r}")
    return days
