"""A number that says what it is: unit, provenance, source and, where known, error.

The kinds of provenance are those of the design: *measured* here by a run, *published* with source and date,
*simulated* by our model with its error, *bound* (a limit, never a prediction), *derived* by a named formula,
*assumed* with a reason. A figure that nobody knows is ``Quantity.unknown`` and never a neighbour's figure.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

__all__ = ["Error", "Provenance", "Quantity", "combine", "total", "weakest"]


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
    """How far off a figure may be, as fractions of its size: ``value - low * |value| .. value + high * |value|``.

    Raises:
        ValueError: if a fraction is negative or not finite, or the basis is missing.
    """

    low: float
    high: float
    basis: str
    """What the error was taken from: a spread of runs, an accuracy table, a source's own statement."""

    def __post_init__(self) -> None:
        if not (0.0 <= self.low < math.inf and 0.0 <= self.high < math.inf and self.basis):
            raise ValueError(f"an error needs two finite fractions from 0 and a basis, got {self!r}")


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

    @property
    def interval(self) -> tuple[float, float]:
        """Lowest and highest value within the error; the value twice where no error is known.

        Raises:
            ValueError: if the figure is unknown.
        """
        value = float(self.require())
        if self.error is None:
            return value, value
        return value - self.error.low * abs(value), value + self.error.high * abs(value)

    def within(self, error: Error) -> Quantity:
        """The same figure with its error stated."""
        return replace(self, error=error)

    def under(self, conditions: str) -> Quantity:
        """The same figure with its conditions stated."""
        return replace(self, conditions=conditions)

    def __str__(self) -> str:
        """Value, unit and kind, such as ``46.4 TB/s (published)``."""
        if self.value is None:
            return "unknown"
        number = f"{self.value:,}" if isinstance(self.value, int) else f"{self.value:,.6g}"
        return f"{number} {self.unit} ({self.kind})".replace("  ", " ")


_MOST_CORNERS = 12


def combine(
    formula: str,
    unit: str,
    inputs: Sequence[Quantity],
    function: Callable[..., float],
    *,
    conditions: str = "",
) -> Quantity:
    """A derived figure with the error that follows from its inputs' errors.

    The error is the interval that ``function`` takes over the corners of the inputs' intervals: exact for a function
    that is monotone in each input, and no independence of the errors is assumed.

    Args:
        formula: the computation in words or symbols; becomes the source.
        unit: of the result.
        inputs: at least one; the result is unknown as soon as one is.
        function: of the inputs' values, in their order.
        conditions: what the result holds for.

    Raises:
        ValueError: if there are no inputs, more than 12 of them have an error, or the result is 0 while its interval
            is more than a point.
    """
    uncertain = [one for one in inputs if one.error is not None]
    if len(uncertain) > _MOST_CORNERS:
        raise ValueError(
            f"'{formula}' has {len(uncertain)} inputs with an error, at most {_MOST_CORNERS} are combined"
        )
    if any(not one.known for one in inputs) or not inputs:
        return Quantity.derived(0.0, unit, formula, inputs, conditions=conditions)
    value = function(*[one.require() for one in inputs])
    result = Quantity.derived(value, unit, formula, inputs, conditions=conditions)
    if not uncertain:
        return result
    found = [function(*corner) for corner in itertools.product(*(set(one.interval) for one in inputs))]
    return _with_interval(result, min(found), max(found), uncertain)


def total(formula: str, unit: str, terms: Sequence[Quantity], *, conditions: str = "") -> Quantity:
    """The sum of figures of one unit, its error the sum of theirs; unknown as soon as one is.

    Raises:
        ValueError: if there are no terms, or one has another unit.
    """
    if other := [one for one in terms if one.unit != unit]:
        raise ValueError(f"'{formula}' adds {other[0].unit} to {unit}")
    if any(not one.known for one in terms) or not terms:
        return Quantity.derived(0.0, unit, formula, terms, conditions=conditions)
    value = math.fsum(one.require() for one in terms)
    result = Quantity.derived(value, unit, formula, terms, conditions=conditions)
    uncertain = [one for one in terms if one.error is not None]
    if not uncertain:
        return result
    low = math.fsum(one.interval[0] for one in terms)
    return _with_interval(result, low, math.fsum(one.interval[1] for one in terms), uncertain)


def _with_interval(result: Quantity, low: float, high: float, uncertain: Sequence[Quantity]) -> Quantity:
    value = float(result.require())
    low, high = min(low, value), max(high, value)
    if value == 0.0:
        if low == high:
            return result
        raise ValueError(
            f"'{result.source}' is 0 with an interval {low} .. {high}, which no fraction can state"
        )
    basis = "; ".join(dict.fromkeys(one.error.basis for one in uncertain if one.error is not None))
    return result.within(Error((value - low) / abs(value), (high - value) / abs(value), basis))
