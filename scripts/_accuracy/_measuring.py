"""One row of the accuracy table: traced once, timed with the published parameters and with each fitted one moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from sys import path

from twintrack.neuroncore.timing.parameters import ParameterRecord, parameter_records, parameters_of

path.append(str(Path(__file__).resolve().parents[2] / "tests" / "accuracy"))

from accuracy_rows import Row
from accuracy_runs import Result, results, timed, times, traced

__all__ = ["STEP", "Measured", "fitted_records", "measure"]

STEP = 1.1
"""By which a parameter is moved."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A row's figures, and how far each moves, as a share, when a fitted parameter is ``STEP`` times as large."""

    row: Row
    results: tuple[Result, ...]
    changes: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


def fitted_records() -> tuple[ParameterRecord, ...]:
    """Parameters of which a value was fitted on a row."""
    return tuple(record for record in parameter_records() if record.fitted_on)


def measure(row: Row, *, sensitivity: bool) -> Measured:
    """Trace and time a row."""
    one = traced(row)
    found = results(row, times(timed(one)))
    changes: dict[str, tuple[float, ...]] = {}
    if sensitivity:
        parameters = parameters_of(row.chip)
        for record in fitted_records():
            value = record.values[row.chip]
            if value == 0:
                changes[record.name] = tuple(0.0 for _ in found)
                continue
            moved = times(timed(one, parameters.changed(**{record.name: value * STEP})))
            changes[record.name] = tuple(moved[result.quantity] / result.simulated - 1 for result in found)
    return Measured(row, found, changes)
