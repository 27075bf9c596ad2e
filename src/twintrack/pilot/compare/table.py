"""A comparison on the terminal, at most 120 columns of text wide."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from twintrack.pilot.compare.records import RunComparison
from twintrack.pilot.compare.tables import (
    figure_table,
    heading,
    loss_table,
    outcome,
    reason_table,
    resume_table,
    slice_table,
    start_table,
    unlike_reasons,
)
from twintrack.report.records import Cell, Column, Table
from twintrack.report.terminal import kinds_line, plain_text, terminal_table

__all__ = ["print_comparison"]

_WIDTH = 120
_STYLES = {"good": "bold green", "bad": "bold red", "warn": "bold yellow", "plain": "bold"}
_SIGNS = {"good": "✓", "bad": "✕", "warn": "!", "plain": "·"}


def print_comparison(comparison: RunComparison, console: Console) -> None:
    """Print outcome, losses, slices, answers, starts, figures, recompiles and costs."""
    width = min(console.width, _WIDTH)
    for part in _parts(comparison):
        console.print(part, width=width)


def _parts(comparison: RunComparison) -> Iterator[RenderableType]:
    yield from _outcome(comparison)
    yield Text()
    tables = [loss_table(comparison)]
    if comparison.slices is not None:
        tables.append(slice_table(comparison, comparison.slices))
    tables += [
        start_table(comparison, notes=False),
        figure_table("Speed, checkpoints, memory", comparison.figures, comparison),
    ]
    tables += [resume_table(comparison)]
    tables += [reason_table(side) for side in (comparison.first, comparison.second) if side.compile_reasons]
    if comparison.costs:
        tables.append(figure_table("Cost", comparison.costs, comparison, of_machines=False))
    for table in tables:
        yield terminal_table(table)
        yield Text()
    yield from _answers(comparison)
    reasons = [reason for reason in unlike_reasons(comparison) if reason not in comparison.remarks]
    notes = (*comparison.remarks, *(f"not put over each other: {reason}" for reason in reasons))
    if notes:
        yield _items([("·", note) for note in notes], "dim")
    yield kinds_line(_all_cells(tables))


def _outcome(comparison: RunComparison) -> Iterator[RenderableType]:
    callout = outcome(comparison)
    a, b = comparison.first, comparison.second
    yield Text(plain_text(callout.title), style=_STYLES[callout.tone])
    yield Text(plain_text(f"{heading(b)}: {b.name}, compared with {heading(a)}: {a.name}"), style="dim")
    said = [(_SIGNS[callout.tone], item) for item in callout.items]
    said += [
        ("!", one.text) for one in (comparison.slices.findings if comparison.slices else ()) if not one.breaks
    ]
    yield _items(said)


def _items(items: list[tuple[str, str]], style: str = "") -> RenderableType:
    """Texts with a sign before each; a text that needs several lines is indented."""
    grid = RichTable.grid(padding=(0, 1))
    for sign, text in items:
        grid.add_row(Text(sign, style=style), Text(plain_text(text), style=style))
    return grid


def _answers(comparison: RunComparison) -> Iterator[Text]:
    if not comparison.answers:
        return
    yield Text("Answers after the last step", style="bold")
    for pair in comparison.answers:
        yield Text(plain_text(pair.prompt))
        for side, text in ((comparison.first, pair.first), (comparison.second, pair.second)):
            yield Text(plain_text(f"  {side.label}: {'no answer on record' if text is None else text}"))
    yield Text()


def _all_cells(tables: list[Table]) -> Table:
    cells: list[Cell] = [cell for table in tables for row in table.rows for cell in row]
    return Table("", (Column(""),), tuple((cell,) for cell in cells))
