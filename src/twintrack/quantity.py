"""A number that says what it is: unit, provenance, source and, where known, error.

The kinds of provenance are those of the design: *measured* here by a run, *published* with source and date,
*simulated* by our model with its error, *bound* (a limit, never a prediction), *derived* by a named formula,
*assumed* with a reason. A figure that nobody knows is ``Quantity.unknown`` and never a neighbour's figure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

__all__ = ["Error", "Provenance", "Quantity", "weakest"]


class Provenance(StrEnum):
    """Where a figure comes from, from the strongest kind to the weakest."""

    MEASURED = "measured"
    PUBLISHED = "published"
    SIMULATED = "simulated"
    DERIVED = "derived"
    ASSUMED = "assumed"
    BOUND = "bound"
    UNKNOWN = "unknown"


_STRENGTH = tuple(Provenance)


def weakest(kinds: Iterable[Provenance]) -> Provenance:
    """The weakest of some kinds; what a result made of several figures rests on.

    Raises:
        ValueError: if there are none.
    """
    return max(kinds, key=_STRENGTH.index)


@dataclass(frozen=True, slots=True)
class Error:
    """How far off a figure may be, as fractions of it: ``value * (1 - low) .. value * (1 + high)``."""

    low: float
    high: float
    basis: str
    """What the error was taken from: a spread of runs, an accuracy table, a source's own statement."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """One figure.

    Args:
        value: the number, or ``None`` where it is not known.
        unit: SI or field unit, such as ``"s"``, ``"byte"``, ``"TFLOPS"``, ``"USD/h"``; ``""`` for a pure number.
        kind: provenance.
        source: for *published* where it stands; for *measured* and *simulated* what produced it; for *derived*
            the formula over its named inputs; for *assumed* and *unknown* the reason.
        date: ``YYYY``, ``YYYY-MM`` or ``YYYY-MM-DD`` of a published figure, where known.
        error: how far off it may be.
        rests_on: for *derived*, the weakest kind among its inputs.
        conditions: what the figure holds for ("dense", "per logical NeuronCore, LNC 2").

    Raises:
        ValueError: if the value is not finite, the source is missing, or a known value says it is unknown.
    """

    value: float | int | None
    unit: str
    kind: Provenance
    source: str
    date: str | None = None
    error: Error | None = None
    rests_on: Provenance | None = None
    conditions: str = ""

    def __post_init__(self) -> None:
        if not self.source:
            raise ValueError("a quantity needs a source")
        if (self.value is None) != (self.kind is Provenance.UNKNOWN):
            raise ValueError(f"value {self.value!r} does not go with kind {self.kind}")
        if self.value is not None and not math.isfinite(self.value):
            raise ValueError(f"a quantity must be finite, got {self.value!r} {self.unit} ({self.source})")
        if (self.kind is Provenance.DERIVED) != (self.rests_on is not None):
            raise ValueError("a derived quantity, and no other, says what it rests on")

    @classmethod
    def unknown(cls, unit: str, reason: str) -> Quantity:
        """A figure that is not known, and why."""
        return cls(None, unit, Provenance.UNKNOWN, reason)

    @classmethod
    def measured(cls, value: float, unit: str, source: str, *, conditions: str = "") -> Quantity:
        """A figure that a run produced here."""
        return cls(value, unit, Provenance.MEASURED, source, conditions=conditions)

    @classmethod
    def derived(
        cls, value: float, unit: str, formula: str, inputs: Iterable[Quantity], *, conditions: str = ""
    ) -> Quantity:
        """A figure computed from others by ``formula``; it is unknown as soon as one input is.

        Raises:
            ValueError: if there are no inputs.
        """
        kinds = [q.rests_on or q.kind for q in inputs]
        if not kinds:
            raise ValueError("a derived quantity needs inputs")
        base = weakest(kinds)
        if base is Provenance.UNKNOWN:
            return cls.unknown(unit, f"an input of '{formula}' is unknown")
        return cls(value, unit, Provenance.DERIVED, formula, rests_on=base, conditions=conditions)

    @property
    def known(self) -> bool:
        """Whether there is a value."""
        return self.value is not None

    def require(self) -> float | int:
        """The value.

        Raises:
            ValueError: if it is unknown.
        """
        if self.value is None:
            raise ValueError(f"figure is unknown: {self.source}")
        return self.value

    def under(self, conditions: str) -> Quantity:
        """The same figure with its conditions stated."""
        return replace(self, conditions=conditions)

    def __str__(self) -> str:
        """Value, unit and kind, such as ``46.4 TB/s (published)``."""
        if self.value is None:
            return "unknown"
        number = f"{self.value:,}" if isinstance(self.value, int) else f"{self.value:,.6g}"
        return f"{number} {self.unit} ({self.kind})".replace("  ", " ")
