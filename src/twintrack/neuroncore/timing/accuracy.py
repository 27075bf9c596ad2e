"""How far the model was from published measurements, by kind of kernel: the error that every simulated time carries.

The table ``data/accuracy.json`` is made by a command from kernels that re-create published measurements. For the error
of a kernel's time count the rows that were predicted (one on which a parameter was fitted says nothing about the next
kernel) and state the time of a kernel, or nothing but the active time of what keeps it busy. Rows outside the accuracy
gates count too, but for those whose published time holds what the model leaves out, the start of a kernel.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Protocol

from twintrack.quantity import Error

__all__ = ["KINDS", "AccuracyRow", "accuracy_rows", "error_of", "kind_of"]

KINDS = ("tensor", "dma", "vector", "mixed")
"""Kinds of kernels: what keeps them busy. ``vector`` stands for Vector, Scalar and GpSimd Engine."""
_FEWEST_ROWS = 2
_LEFT_OUT = "which the model leaves out"
"""How the note of a row ends whose published time holds more than what is timed."""
_TOTAL = "total"
_MIXED = 0.5
"""Where the second busiest resource works this share of the busiest one's time, a kernel is mixed."""


class _Folder(Protocol):
    def joinpath(self, *descendants: str) -> Any: ...


@dataclass(frozen=True, slots=True)
class AccuracyRow:
    """One published measurement beside the model's figure.

    Args:
        name: of the measurement.
        kind: one of ``KINDS``.
        chip: such as ``trn2``.
        quantity: what was measured, with its unit.
        published: by its source.
        simulated: by the model.
        error: ``simulated / published - 1``.
        fitted: whether a parameter was fitted on it.
        note: what a reader must know about it.
    """

    name: str
    kind: str
    chip: str
    quantity: str
    published: float
    simulated: float
    error: float
    fitted: bool
    note: str = ""


def accuracy_rows(folder: _Folder | None = None) -> tuple[AccuracyRow, ...]:
    """The rows of the table; none where it was not made yet.

    Args:
        folder: that holds ``accuracy.json``; the package's data by default.

    Raises:
        ValueError: if the file is damaged or a kind is unknown.
    """
    source = (folder or files("twintrack.neuroncore.timing") / "data").joinpath("accuracy.json")
    if not source.is_file():
        return ()
    return tuple(_row(one) for one in json.loads(source.read_text(encoding="utf-8"))["rows"])


def _row(entry: Mapping[str, Any]) -> AccuracyRow:
    if entry["kind"] not in KINDS:
        raise ValueError(f"row {entry['name']}: kind {entry['kind']!r}, required one of {KINDS}")
    return AccuracyRow(
        str(entry["name"]),
        str(entry["kind"]),
        str(entry["chip"]),
        str(entry["quantity"]),
        float(entry["published"]),
        float(entry["simulated"]),
        float(entry["error"]),
        bool(entry["fitted"]),
        str(entry.get("note", "")),
    )


def error_of(kind: str, rows: Sequence[AccuracyRow] | None = None) -> Error | None:
    """The error of a simulated time: the interval that the rows of this kind span on which nothing was fitted.

    A row whose simulated figure is 10 % too high says that the truth may be ``1 - 1 / 1.1`` below a simulated time.
    Where a kind has fewer than two predicted rows, those of all kinds count, and the basis says so. A few rows that
    happen to agree promise nothing, so the error is never below the mean one of all rows, to either side.

    Args:
        kind: one of ``KINDS``.
        rows: of the table; the package's by default.

    Returns:
        The error, or ``None`` where no row was predicted.

    Raises:
        ValueError: if the kind is unknown.
    """
    if kind not in KINDS:
        raise ValueError(f"kind {kind!r}, required one of {KINDS}")
    predicted = _counted(accuracy_rows() if rows is None else rows)
    mine = [one for one in predicted if one.kind == kind]
    basis = f"{len(mine)} rows of the accuracy table that nothing was fitted on, kind {kind}"
    if len(mine) < _FEWEST_ROWS:
        basis = (
            f"{len(predicted)} rows of the accuracy table that nothing was fitted on, all kinds "
            f"({kind} has {len(mine)})"
        )
        mine = predicted
    if not mine:
        return None
    off = [1.0 / (1.0 + one.error) - 1.0 for one in mine]
    least = sum(abs(1.0 / (1.0 + one.error) - 1.0) for one in predicted) / len(predicted)
    return Error(max(least, -min(off)), max(least, max(off)), f"{basis}; at least the mean error of all")


def _counted(rows: Sequence[AccuracyRow]) -> list[AccuracyRow]:
    """Predicted rows that say how far a kernel's time may be off."""
    totals = {one.name for one in rows if one.quantity.startswith(_TOTAL)}
    return [
        one
        for one in rows
        if not one.fitted
        and not one.note.endswith(_LEFT_OUT)
        and (one.quantity.startswith(_TOTAL) or one.name not in totals)
    ]


def kind_of(active: Mapping[str, float]) -> str:
    """The kind of a kernel, from the seconds for which ``dma`` and each engine were active."""
    vector = max(active.get(name, 0.0) for name in ("vector", "scalar", "gpsimd"))
    found = {"tensor": active.get("tensor", 0.0), "dma": active.get("dma", 0.0), "vector": vector}
    first, second, _ = sorted(found, key=lambda name: -found[name])
    return "mixed" if found[second] > _MIXED * found[first] else first
