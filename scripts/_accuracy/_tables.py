"""The accuracy table for the terminal and for the documentation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from _accuracy._measuring import STEP, Measured, fitted_records
from twintrack.errors import UserError
from twintrack.neuroncore.timing.parameters import ParameterRecord

from accuracy_gates import mean_absolute_error, predicted_rows  # isort: skip
from accuracy_rows import NOT_RECREATED  # isort: skip
from accuracy_runs import Result  # isort: skip

__all__ = ["markdown", "sensitivity_table", "terminal", "write_into"]

BEGIN, END = "<!-- simulated: begin -->", "<!-- simulated: end -->"
_COLUMNS = ("row", "chip", "kind", "quantity", "published", "simulated", "error", "")


def _figure(value: float) -> str:
    return f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def _percent(value: float) -> str:
    return f"{value * 100:+.1f} %"


def _standing(result: Result) -> str:
    if result.fitted:
        return "fitted"
    return "predicted" if result.gated else "shown only"


def _cells(result: Result) -> tuple[str, ...]:
    return (
        result.name,
        result.chip,
        result.kind,
        result.quantity,
        _figure(result.published),
        _figure(result.simulated),
        _percent(result.error),
        _standing(result),
    )


def _summary(results: Sequence[Result]) -> str:
    rows = predicted_rows(results)
    if not rows:
        return "no predicted row"
    worst = max(rows, key=lambda one: abs(one.error))
    return (
        f"{len(rows)} predicted rows: mean absolute error {mean_absolute_error(rows) * 100:.1f} %, "
        f"largest {_percent(worst.error)} ({worst.name})"
    )


def terminal(results: Sequence[Result]) -> Table:
    """A line for each published figure."""
    table = Table(title="Published and simulated", caption=_summary(results))
    for name in _COLUMNS:
        right = name in ("published", "simulated", "error")
        table.add_column(name, justify="right" if right else "left", no_wrap=True)
    for result in results:
        table.add_row(*_cells(result), style="" if result.gated else "dim")
    return table


def sensitivity_table(measured: Sequence[Measured]) -> Table:
    """A line for each figure, a column for each fitted parameter."""
    names = [record.name for record in fitted_records()]
    table = Table(title=f"Change of the simulated figure with a fitted parameter {STEP - 1:+.0%}")
    for name in ("row", "quantity", *names):
        table.add_column(name, justify="right" if name in names else "left", no_wrap=True)
    for line in _sensitivities(measured):
        table.add_row(*line)
    return table


def _sensitivities(measured: Sequence[Measured]) -> list[tuple[str, ...]]:
    return [
        (result.name, result.quantity, *(_percent(changes[at]) for changes in one.changes.values()))
        for one in measured
        for at, result in enumerate(one.results)
    ]


def _rows(header: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(header)} |",
        "|---" * len(header) + "|",
        *(f"| {' | '.join(one)} |" for one in lines),
    ]


def markdown(measured: Sequence[Measured]) -> str:
    """The tables of the documentation: figures, remarks and sources, sensitivities, what was not re-created."""
    results = [result for one in measured for result in one.results]
    lines = [
        _summary(results) + ".",
        "",
        *_rows((*_COLUMNS[:-1], "standing"), [_cells(one) for one in results]),
    ]
    lines += ["", "### Sources and remarks", ""]
    remarks = []
    for one in measured:
        notes = "; ".join(dict.fromkeys(figure.note for figure in one.row.figures if figure.note))
        remarks.append((one.row.name, one.row.source.replace("|", "/"), notes))
    lines += _rows(("row", "source", "remark"), remarks)
    lines += ["", "### Fitted parameters", ""]
    lines += _rows(
        ("parameter", "values", "fitted on", "how"), [_fitted(record) for record in fitted_records()]
    )
    lines += ["", f"Change of each simulated figure with a fitted parameter {STEP - 1:+.0%}:", ""]
    names = [f"`{record.name}`" for record in fitted_records()]
    lines += _rows(("row", "quantity", *names), _sensitivities(measured))
    lines += ["", "### Not re-created", ""]
    lines += _rows(("measurement", "reason"), list(NOT_RECREATED.items()))
    return "\n".join(lines) + "\n"


def _fitted(record: ParameterRecord) -> tuple[str, ...]:
    values = ", ".join(f"{chip} {value:g}" for chip, value in record.values.items())
    return f"`{record.name}`", f"{values} {record.unit}", record.fitted_on, record.note


def write_into(page: Path, text: str) -> None:
    """Replace what stands between the two marks of a page.

    Raises:
        UserError: the page has not both marks, once each.
    """
    before = page.read_text(encoding="utf-8")
    if before.count(BEGIN) != 1 or before.count(END) != 1:
        raise UserError(
            f"{BEGIN} and {END}, once each",
            found="not so",
            where=page.name,
            remedy="put them around the tables",
        )
    head, rest = before.split(BEGIN)
    page.write_text(f"{head}{BEGIN}\n\n{text}\n{END}{rest.split(END)[1]}", encoding="utf-8")
