"""The table that ends a pilot on the terminal: a column per track, at most 100 columns of text wide."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.text import Text

from twintrack.pilot.page_overview import headline, outcome_table
from twintrack.pilot.summary_records import Summary
from twintrack.report.records import Callout
from twintrack.report.terminal import kinds_line, plain_text, terminal_table

__all__ = ["print_summary", "summary_table"]

_WIDTH = 100
_STYLES = {"good": "bold green", "bad": "bold red", "warn": "bold yellow", "plain": "bold"}


def summary_table(summary: Summary) -> RenderableType:
    """The outcome, every failure, and the figures of the tracks side by side."""
    table = outcome_table(summary)
    return Group(*_outcome(headline(summary)), Text(), terminal_table(table), Text(), kinds_line(table))


def _outcome(callout: Callout) -> list[Text]:
    lines = [Text(plain_text(callout.title), style=_STYLES[callout.tone])]
    if callout.text:
        lines.append(Text(plain_text(callout.text)))
    return lines + [Text(f"  ✕ {plain_text(item)}", style="red") for item in callout.items]


def print_summary(summary: Summary, console: Console) -> None:
    """Print the table, no wider than 100 columns."""
    console.print(summary_table(summary), width=min(console.width, _WIDTH))
