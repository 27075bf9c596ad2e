"""How a figure is written for a reader: a handy unit, four significant digits, all else in a tooltip."""

from __future__ import annotations

import math
from collections.abc import Mapping

from twintrack.quantity import Error, Provenance, Quantity

__all__ = ["BADGES", "KIND_MEANING", "quantity_text", "scaled", "tooltip"]

BADGES: Mapping[Provenance, str] = {
    Provenance.MEASURED: "M",
    Provenance.PUBLISHED: "P",
    Provenance.SIMULATED: "S",
    Provenance.DERIVED: "D",
    Provenance.ASSUMED: "A",
    Provenance.BOUND: "B",
    Provenance.UNKNOWN: "?",
}
"""The letter that marks a kind, so that no one has to tell kinds apart by colour."""

KIND_MEANING: Mapping[Provenance, str] = {
    Provenance.MEASURED: "a run produced it; its source says which",
    Provenance.PUBLISHED: "a named source states it",
    Provenance.SIMULATED: "our model computed it",
    Provenance.DERIVED: "a named formula over other figures",
    Provenance.ASSUMED: "set by the job or by us, with a reason",
    Provenance.BOUND: "a limit, never a prediction",
    Provenance.UNKNOWN: "nobody knows it; no neighbour's figure stands in",
}

_STEPS: Mapping[str, tuple[tuple[float, str], ...]] = {
    "s": ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s")),
    "byte": ((1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB")),
    "FLOP": ((1.0, "FLOP"), (1e3, "kFLOP"), (1e6, "MFLOP"), (1e9, "GFLOP"), (1e12, "TFLOP"), (1e15, "PFLOP")),
}


def scaled(value: float, unit: str) -> tuple[float, str]:
    """The value in the largest unit of its family that it reaches; units without a family stay.

    >>> scaled(0.0125, "s")
    (12.5, 'ms')
    """
    steps = _STEPS.get(unit)
    if steps is None:
        return value, unit
    if value == 0:
        return value, next(name for factor, name in steps if factor == 1.0)
    factor, name = next((s for s in reversed(steps) if abs(value) >= s[0]), steps[0])
    return (value, name) if factor == 1.0 else (value / factor, name)


def _number(value: float, unit: str) -> str:
    if isinstance(value, int) or value == 0 or (unit == "%" and value == 100):
        return f"{int(value):,}"
    if unit == "%" and value < 100 and round(value, 2) >= 100:
        return "99.99"  # a share below all of it must never be printed as all of it
    if not 1e-4 <= abs(value) < 1e6:
        return f"{value:.3e}"
    return f"{value:,.{max(0, 3 - math.floor(math.log10(abs(value))))}f}"


def quantity_text(quantity: Quantity) -> str:
    """Number, unit and error where there is one, or ``unknown``.

    >>> quantity_text(Quantity.measured(269_060_552, "byte", "x"))
    '269.1 MB'
    >>> quantity_text(Quantity.measured(20.0, "USD", "x").within(Error(0.1, 0.25, "spread")))
    '20.00 USD (−10 % +25 %)'
    """
    if quantity.value is None:
        return "unknown"
    return _stated(quantity) + ("" if quantity.error is None else f" ({_error_text(quantity.error)})")


def _error_text(error: Error) -> str:
    low, high = (f"{100.0 * part:.2g}" for part in (error.low, error.high))
    return f"±{low} %" if low == high else f"−{low} % +{high} %"


def _stated(quantity: Quantity) -> str:
    if quantity.value is None:
        return "unknown"
    if quantity.kind in (Provenance.PUBLISHED, Provenance.ASSUMED):
        return f"{quantity.value:,} {quantity.unit}".strip()  # as it was stated, to the digit
    value, unit = scaled(quantity.value, quantity.unit)
    return f"{_number(value, unit)} {unit}".strip()


def tooltip(quantity: Quantity) -> str:
    """All that is known of a figure, a line each: kind, exact value, source, conditions, error, date."""
    kind = f"{quantity.kind}: {KIND_MEANING[quantity.kind]}"
    if quantity.rests_on is not None:
        kind += f"; rests on {quantity.rests_on} figures"
    lines = [kind]
    if quantity.value is not None:
        lines.append(f"value: {quantity.value!r} {quantity.unit}".rstrip())
    label = {Provenance.DERIVED: "formula", Provenance.UNKNOWN: "reason", Provenance.ASSUMED: "reason"}
    lines.append(f"{label.get(quantity.kind, 'source')}: {quantity.source}")
    if quantity.conditions:
        lines.append(f"conditions: {quantity.conditions}")
    if quantity.error is not None:
        low, high = quantity.error.low, quantity.error.high
        lines.append(f"error: −{low:.2%} to +{high:.2%} ({quantity.error.basis})")
    if quantity.date is not None:
        lines.append(f"date: {quantity.date}")
    return "\n".join(lines)
