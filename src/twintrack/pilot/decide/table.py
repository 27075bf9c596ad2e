"""A verdict on a terminal: the sentence, what would change it, matrix and sensitivity, at most 100 columns wide."""

from __future__ import annotations

from rich.console import Console, Group
from rich.padding import Padding
from rich.text import Text

from twintrack.pilot.decide.page import flip_table, matrix_table
from twintrack.pilot.decide.records import Outcome, Verdict
from twintrack.report.records import Table
from twintrack.report.terminal import kinds_line, plain_text, terminal_table

__all__ = ["print_verdict"]

_WIDTH = 100
_STYLES = {Outcome.ACCEPTED: "bold green", Outcome.REFUSED: "bold red", Outcome.UNDECIDED: "bold yellow"}
_SIGNS = {True: ("✓", "green"), False: ("✕", "red"), None: ("?", "yellow")}


def print_verdict(verdict: Verdict, console: Console) -> None:
    """Print it; the rules come as a list, because their reasons are sentences."""
    width = min(console.width, _WIDTH)
    console.print(Text(plain_text(verdict.sentence), style=_STYLES[verdict.outcome]), width=width)
    console.print(Text(), Text("Rules", style="bold"), width=width)
    for reason in verdict.reasons:
        sign, style = _SIGNS[reason.holds]
        head = Text.assemble((f"{sign} ", style), plain_text(reason.rule))
        console.print(head, width=width)
        console.print(Padding(Text(plain_text(reason.text), style="dim"), (0, 0, 0, 4)), width=width)
    matrix, flips = _short(matrix_table(verdict.criteria)), flip_table(verdict)
    console.print(Group(Text(), terminal_table(matrix)), width=width)
    if flips.rows:
        console.print(Group(Text(), terminal_table(_short(flips)), Text(), kinds_line(flips)), width=width)


def _short(table: Table) -> Table:
    """A table without its last column, which stands in the report."""
    return Table(table.title, table.columns[:-1], tuple(row[:-1] for row in table.rows))
