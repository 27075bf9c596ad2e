"""Figures out of one events file, each with the file and the event as its source."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from twintrack.events import AnyEvent, Event, Imported
from twintrack.pilot.summary_parts import Curve
from twintrack.quantity import Provenance, Quantity

__all__ = ["Ledger", "of_kind", "source_text", "told_elsewhere"]

E = TypeVar("E", bound=Event)


def of_kind(events: Iterable[AnyEvent], kind: type[E]) -> list[E]:
    """The events of one kind, in their order."""
    return [event for event in events if isinstance(event, kind)]


def source_text(path: str, imported: Iterable[tuple[str, str]]) -> str:
    """An events file as a source of figures, with the name and SHA-256 of each log that it was imported from."""
    logs = ", ".join(f"imported from {file}, sha256 {sha256[:12]}" for file, sha256 in imported)
    return f"{path} ({logs})" if logs else path


def told_elsewhere(events: Iterable[AnyEvent]) -> bool:
    """Whether the events were made from a log of another kind, whose silence says nothing: it lacks what our own
    events would tell."""
    return any(event.format != "events" for event in of_kind(events, Imported))


@dataclass(frozen=True, slots=True)
class Ledger:
    """Makes figures that name ``path``, the events file relative to the run folder and what it was imported from."""

    path: str

    @classmethod
    def of(cls, path: str, events: Iterable[AnyEvent]) -> Ledger:
        """For an events file, where the figures of an imported run name the log too."""
        return cls(source_text(path, [(one.file, one.sha256) for one in of_kind(events, Imported)]))

    def measured(self, value: float, unit: str, event: str, conditions: str = "") -> Quantity:
        """A value that an event holds."""
        return Quantity.measured(value, unit, f"{self.path}: {event}", conditions=conditions)

    def derived(self, value: float, unit: str, formula: str, conditions: str = "") -> Quantity:
        """A value computed from measured values of the file."""
        return Quantity(
            value,
            unit,
            Provenance.DERIVED,
            f"{formula}, from {self.path}",
            rests_on=Provenance.MEASURED,
            conditions=conditions,
        )

    def unknown(self, unit: str, event: str) -> Quantity:
        """A value whose event is missing."""
        return Quantity.unknown(unit, f"no {event} in {self.path}")

    def maybe(self, value: float | None, unit: str, event: str, conditions: str = "") -> Quantity:
        """A value that an event holds, or that an imported log did not say."""
        return self.unknown(unit, event) if value is None else self.measured(value, unit, event, conditions)

    def median(self, values: Sequence[float], unit: str, what: str) -> Quantity:
        """The median; unknown if there are no values."""
        if not values:
            return self.unknown(unit, what)
        return self.derived(statistics.median(values), unit, f"median of {what} over {len(values)}")

    def curve(
        self,
        steps: Sequence[int],
        values: Sequence[float | None],
        unit: str,
        event: str,
        over: Sequence[int] = (),
    ) -> Curve:
        """Measured values by step, those that are known; ``over`` says of how many steps each is the mean."""
        means = over if any(count != 1 for count in over) else [1] * len(steps)
        known = [(s, v, n) for s, v, n in zip(steps, values, means, strict=True) if v is not None]
        return Curve(
            unit,
            Provenance.MEASURED,
            f"{self.path}: {event}",
            tuple(step for step, _, _ in known),
            tuple(value for _, value, _ in known),
            tuple(count for _, _, count in known) if means is over else (),
        )
