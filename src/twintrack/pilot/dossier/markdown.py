"""A dossier as Markdown that reads as plain text too; text from outside is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from twintrack.pilot.decide.page import flip_table, matrix_table, reason_table, software_table
from twintrack.pilot.dossier.records import Dossier, Entry
from twintrack.pilot.ledger.records import TrackLedger
from twintrack.quantity import Quantity
from twintrack.report.format import quantity_text
from twintrack.report.records import Cell, Status, Table

__all__ = ["dossier_markdown"]


def dossier_markdown(dossier: Dossier) -> str:
    """The whole dossier; every figure with its kind, and a list of sources at the end."""
    notes = _Notes()
    lines = [
        f"# Capacity request: {_text(dossier.job)}",
        "",
        f"**{_text(dossier.verdict.sentence)}**",
        "",
        f"Made on {dossier.on} by twintrack {dossier.version}; job digest `{dossier.job_digest}`.",
        "Figures are marked with their kind; the number in brackets leads to the source.",
        "",
    ]
    for part in dossier.parts:
        lines += [
            f"## {part.title}",
            "",
            *_table(("", "", "from"), (_entry(e, notes) for e in part.entries)),
            "",
        ]
    for ledger in dossier.ledgers:
        lines += [f"## Ledger of {_text(ledger.run)}", "", *_ledger(ledger, notes), ""]
    lines += ["## Risks", "", *(f"- {_text(risk)}" for risk in dossier.risks or ("None was found.",)), ""]
    duties = ((duty.what, duty.who or "**nobody**") for duty in dossier.duties)
    lines += ["## Who answers for what", "", *_table(("what", "who"), duties), ""]
    verdict = dossier.verdict
    tables = [reason_table(verdict.reasons), matrix_table(verdict.criteria)]
    tables += [flip_table(verdict), *([software_table(verdict)] if verdict.software else [])]
    for table in tables:
        lines += [
            f"## {table.title}",
            "",
            *_records(table, notes),
            *(["", _text(table.note)] if table.note else []),
            "",
        ]
    return "\n".join([*lines, *notes.lines()]) + "\n"


class _Notes:
    """Numbers the sources of figures, each once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def figure(self, quantity: Quantity) -> str:
        """A figure in words, with kind and the number of its source."""
        source = quantity.source + (f" ({quantity.date})" if quantity.date else "")
        if quantity.error is not None:
            source += f"; error: {quantity.error.basis}"
        number = self._numbers.setdefault(source, len(self._numbers) + 1)
        kind = f" ({quantity.kind})" if quantity.known else ""
        return f"{_text(quantity_text(quantity))}{kind} [{number}]"

    def lines(self) -> Iterator[str]:
        """The sources, by number."""
        yield from ("## Sources", "")
        for source, number in self._numbers.items():
            yield f"{number}. {_text(source)}"


def _entry(entry: Entry, notes: _Notes) -> tuple[str, str, str]:
    figures = [f"{_text(figure.name)}: {notes.figure(figure.value)}" for figure in entry.figures]
    return (
        _text(entry.name),
        "; ".join(([_text(entry.text)] if entry.text else []) + figures),
        _text(entry.source),
    )


def _ledger(ledger: TrackLedger, notes: _Notes) -> Iterator[str]:
    rows = [
        (_text(line.name), notes.figure(line.amount), notes.figure(line.without_faults), _text(line.formula))
        for line in ledger.lines
    ]
    rows.append(("**total**", notes.figure(ledger.total), notes.figure(ledger.total_without_faults), ""))
    yield from _table(("line", "amount", "without faults", "formula"), rows)
    for line in ledger.lines:
        if line.inputs:
            inputs = "; ".join(f"{_text(one.name)}: {notes.figure(one.value)}" for one in line.inputs)
            yield from ("", f"*{_text(line.name)}*: {inputs}.")


def _records(table: Table, notes: _Notes) -> Iterator[str]:
    heads = tuple(column.name for column in table.columns)
    return _table(heads, (tuple(_cell(cell, notes) for cell in row) for row in table.rows))


def _cell(cell: Cell, notes: _Notes) -> str:
    if isinstance(cell, Quantity):
        return notes.figure(cell)
    return _text(cell.text if isinstance(cell, Status) else cell)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def _text(text: str) -> str:
    """One line in which nothing is markup."""
    line = " ".join(text.split())
    return re.sub(r"([\\`*_\[\]<>|#~])", r"\\\1", line)
