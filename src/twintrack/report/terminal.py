"""The same tables on a terminal."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text

from twintrack.quantity import Quantity
from twintrack.report.format import BADGES, KIND_MEANING, quantity_text
from twintrack.report.records import Cell, Status, Table

__all__ = ["kinds_line", "plain_text", "terminal_table"]

_SIGNS = {
    "good": ("✓ ", "bold green"),
    "bad": ("✕ ", "bold red"),
    "warn": ("! ", "bold yellow"),
    "plain": ("", ""),
}


def terminal_table(table: Table) -> RichTable:
    """The table for a ``rich`` console; each figure ends in its kind's letter, texts are never markup."""
    drawn = RichTable(title=Text(table.title, style="bold"), title_justify="left", pad_edge=False, box=None)
    drawn.caption = Text(plain_text(table.note), style="dim") if table.note else None
    drawn.caption_justify = "left"
    for column in table.columns:
        drawn.add_column(
            escape(plain_text(column.name)),
            justify="right" if column.numeric else "left",
            header_style="dim",
            overflow="fold",
        )
    for row in table.rows:
        drawn.add_row(*(_text(cell) for cell in row))
    return drawn


def _text(cell: Cell) -> Text:
    match cell:
        case Quantity():
            text = Text(quantity_text(cell), style="" if cell.known else "italic dim")
            return text.append(f" {BADGES[cell.kind]}", style="dim") if cell.known else text
        case Status():
            sign, style = _SIGNS[cell.tone]
            return Text(sign + plain_text(cell.text), style=style)
        case _:
            return Text(plain_text(cell))


def plain_text(text: str) -> str:
    """Text without control characters, which could move the cursor or rename the window of its reader."""
    return "".join(sign if sign.isprintable() or sign == "\n" else "�" for sign in text)


def kinds_line(table: Table) -> Text:
    """What the letters in a table mean, for those kinds that occur in it."""
    found = {cell.kind for row in table.rows for cell in row if isinstance(cell, Quantity) and cell.known}
    return Text("  ".join(f"{BADGES[k]} {k}: {KIND_MEANING[k]}" for k in BADGES if k in found), style="dim")
