"""Ledgers as sections of a report: a waterfall with error bars, lines with formulas, inputs with sources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twintrack.pilot.ledger.records import Line, TrackLedger
from twintrack.quantity import Quantity
from twintrack.report.records import Block, Callout, Cell, Column, Section, Table, Waterfall

__all__ = ["ledger_sections"]


def ledger_sections(ledgers: Sequence[TrackLedger]) -> tuple[Section, ...]:
    """A section per ledger."""
    return tuple(
        Section(f"Cost of {ledger.run}", tuple(_blocks(ledger, slot)), _lead(ledger))
        for slot, ledger in enumerate(ledgers)
    )


def _lead(ledger: TrackLedger) -> str:
    machine = f"On {ledger.machine}." if ledger.machine else "No machine with a price is named for it."
    return f"{machine} Money is computed when this page is made, from dated prices; no event holds any."


def _blocks(ledger: TrackLedger, slot: int) -> Iterator[Block]:
    if not ledger.total.known:
        yield Callout("warn", "The total is unknown", ledger.total.source)
    if any(line.amount.value for line in ledger.lines):
        yield Waterfall(
            "What it cost, line by line",
            ledger.currency,
            tuple(line.name for line in ledger.lines),
            tuple(line.amount for line in ledger.lines),
            ledger.total,
            slot=slot,
            note="Error bars reach as far as the figures' errors allow; a bar without one has no error that is known.",
        )
    yield _totals(ledger)
    yield _lines(ledger)
    yield _inputs(ledger.lines)
    if ledger.stale:
        yield Callout("warn", "Prices too old to decide anything", "", ledger.stale)
    if ledger.remarks:
        yield Callout("plain", "To know when reading these figures", "", ledger.remarks)


def _totals(ledger: TrackLedger) -> Table:
    rows: tuple[tuple[Cell, Quantity], ...] = (
        ("machine time", ledger.time),
        ("total", ledger.total),
        ("total without faults", ledger.total_without_faults),
        ("per million tokens", ledger.per_million_tokens),
    )
    return Table("", (Column(""), Column("figure", numeric=True)), rows)


def _lines(ledger: TrackLedger) -> Table:
    rows = tuple(
        (line.name, line.amount, line.without_faults, line.formula, line.note or "–") for line in ledger.lines
    )
    columns = (
        Column("line"),
        Column("amount", numeric=True),
        Column(
            "without faults", numeric=True, note="the same run without its stops, kills and repeated steps"
        ),
        Column("formula"),
        Column("remark"),
    )
    return Table("Lines", columns, rows)


def _inputs(lines: Sequence[Line]) -> Table:
    rows = tuple((line.name, one.name, one.value, one.value.source) for line in lines for one in line.inputs)
    columns = (
        Column("line"),
        Column("input"),
        Column("value", numeric=True),
        Column("source, or why it is unknown"),
    )
    return Table("every input of every line", columns, rows, folded=True)
