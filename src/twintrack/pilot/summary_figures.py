"""Figures out of one events file, each with the file and the event as its source."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from twintrack.events import AnyEvent, Event
from twintrack.pilot.summary_parts import Curve
from twintrack.quantity import Provenance, Quantity

__all__ = ["Ledger", "of_kind"]

E = TypeVar("E", bound=Event)


def of_kind(events: Iterable[AnyEvent], kind: type[E]) -> list[E]:
    """The events of one kind, in their order."""
    return [event for event in events if isinstance(event, kind)]


@dataclass(frozen=True, slots=True)
class Ledger:
    """Makes figures that name ``path``, the events file relative to the run folder."""

    path: str

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

    def median(self, values: Sequence[float], unit: str, what: str) -> Quantity:
        """The median; unknown if there are no values."""
        if not values:
            return self.unknown(unit, what)
        return self.derived(statistics.median(values), unit, f"median of {what} over {len(values)}")

    def curve(self, steps: Sequence[int], values: Sequence[float], unit: str, event: str) -> Curve:
        """Measured values by step."""
        return Curve(unit, Provenance.MEASURED, f"{self.path}: {event}", tuple(steps), tuple(values))
