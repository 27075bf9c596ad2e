"""What the model must hold on figures that were not fitted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from accuracy_rows import ROWS, VERSIONS
from accuracy_runs import Result

__all__ = ["MEAN", "WORST", "WORST_ACTIVE", "broken_gates", "mean_absolute_error", "predicted_rows"]

MEAN, WORST, WORST_ACTIVE = 0.10, 0.25, 0.15
"""Largest mean absolute error of predicted rows, error of one, and error of an engine's active time."""


def predicted_rows(results: Sequence[Result]) -> list[Result]:
    """The first figure of every row that was predicted and is gated: one per row."""
    first = {row.name: row.figures[0].quantity for row in ROWS}
    return [one for one in results if one.gated and not one.fitted and one.quantity == first[one.name]]


def mean_absolute_error(results: Iterable[Result]) -> float:
    """Mean of ``|error|``.

    Raises:
        ValueError: if there are none.
    """
    errors = [abs(one.error) for one in results]
    if not errors:
        raise ValueError("no results")
    return sum(errors) / len(errors)


def broken_gates(results: Sequence[Result]) -> list[str]:
    """What does not hold, as sentences; of rows that were not simulated nothing is said."""
    found = []
    rows = predicted_rows(results)
    if rows and mean_absolute_error(rows) > MEAN:
        found.append(f"mean absolute error {mean_absolute_error(rows):.1%}, at most {MEAN:.0%}")
    for one in results:
        if one.fitted or not one.gated:
            continue
        most = WORST if one.quantity.startswith("total") else WORST_ACTIVE
        if abs(one.error) > most:
            found.append(f"{one.name}, {one.quantity}: error {one.error:+.1%}, at most {most:.0%}")
    totals = {one.name: one.simulated for one in results if one.quantity.startswith("total")}
    for names in VERSIONS:
        known = [name for name in names if name in totals]
        for slower, faster in pairwise(known):
            if totals[slower] <= totals[faster]:
                found.append(f"{faster} is slower than {slower}")
    return found
