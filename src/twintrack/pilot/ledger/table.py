"""The ledger on a terminal: a line per ledger line, the totals, and what is missing to know what is not known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from twintrack.pilot.ledger.records import Line, PilotLedger, TrackLedger
from twintrack.quantity import Quantity, total
from twintrack.report.records import Cell, Column, Table
from twintrack.report.terminal import kinds_line, plain_text, terminal_table

__all__ = ["print_ledger"]

_WIDTH = 110
_COLUMNS = (
    Column("line"),
    Column("machine time", numeric=True),
    Column("amount", numeric=True),
    Column("without faults", numeric=True),
)


def print_ledger(ledger: PilotLedger, console: Console) -> None:
    """Print every track's ledger, no wider than 110 columns."""
    width = min(console.width, _WIDTH)
    for one in ledger.tracks:
        table = _table(one)
        console.print(
            Text(plain_text(f"{one.run}  on {one.machine or 'no machine'}"), style="bold"), width=width
        )
        console.print(terminal_table(table), width=width)
        for title, items, style in _notes(one):
            console.print(Text(title, style=style))
            for item in items:
                console.print(Padding(Text(plain_text(item)), (0, 0, 0, 2), expand=False), width=width)
        console.print(kinds_line(table), width=width)
        console.print()
    console.print(
        Text(f"Prices as of {ledger.on}. --json has every formula, every input and its source.", style="dim")
    )


def _table(ledger: TrackLedger) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (_name(line, ledger), _time(line), line.amount, line.without_faults) for line in ledger.lines
    ]
    rows.append(("total", _shown_time(ledger.time), ledger.total, ledger.total_without_faults))
    rows.append(("per million tokens", "", ledger.per_million_tokens, ""))
    return Table("", _COLUMNS, tuple(rows))


def _name(line: Line, ledger: TrackLedger) -> str:
    return f"{line.name} (not in total)" if line.name in ledger.left_out else line.name


def _time(line: Line) -> Cell:
    seconds = [one.value for one in line.inputs if one.value.unit == "s" and one.name != "other machine time"]
    if not seconds:
        return ""
    return _shown_time(total(f"machine time of {line.name}", "s", seconds))


def _shown_time(time: Quantity) -> Quantity:
    """In hours from one hour on."""
    if time.value is None or time.value < 3600.0:
        return time
    return Quantity(
        time.value / 3600.0,
        "h",
        time.kind,
        time.source,
        date=time.date,
        error=time.error,
        rests_on=time.rests_on,
        conditions=time.conditions,
    )


def _notes(ledger: TrackLedger) -> Iterator[tuple[str, Sequence[str], str]]:
    if not ledger.total.known:
        yield "The total is unknown:", _reasons(ledger), "bold yellow"
    if ledger.stale:
        yield "Too old to decide anything:", ledger.stale, "bold yellow"
    if ledger.remarks:
        yield "To know:", ledger.remarks, "bold"


def _reasons(ledger: TrackLedger) -> list[str]:
    """What is missing to know the total: lines with one reason together."""
    found: dict[str, list[str]] = {}
    for line in ledger.lines:
        if line.name not in ledger.left_out and not line.amount.known:
            found.setdefault(line.amount.source, []).append(line.name)
    return [f"{', '.join(names)}: {reason}" for reason, names in found.items()]
