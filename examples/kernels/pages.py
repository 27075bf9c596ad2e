"""What the pages of the example kernels are made of: Markdown tables, and sections between markers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = ["BEGIN", "END", "sections_in", "sentence", "table_text", "write_sections"]

BEGIN, END = "<!-- simulated: begin -->", "<!-- simulated: end -->"


def table_text(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; columns of figures stand to the right."""
    figures = [
        all(cell == "-" or cell[:1].isdigit() for cell in column) for column in zip(*rows, strict=True)
    ]
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    lines.insert(1, f"|{'|'.join('---:' if right else '---' for right in figures)}|")
    return "\n".join(lines)


def sentence(text: str) -> str:
    """The text from a capital letter to a full stop."""
    return f"{text[0].upper()}{text[1:]}."


def sections_in(text: str) -> list[str]:
    """What stands between the markers of a page, in order.

    Raises:
        ValueError: if a marker that begins a section has none that ends it.
    """
    found = []
    for part in text.split(BEGIN)[1:]:
        section, closed, _ = part.partition(END)
        if not closed:
            raise ValueError(f"a section without {END}")
        found.append(section.strip("\n"))
    return found


def write_sections(page: Path, sections: Sequence[str]) -> None:
    """Put these between the markers of a page, in order.

    Raises:
        ValueError: if the page has another number of places.
    """
    text = page.read_text(encoding="utf-8")
    if len(sections_in(text)) != len(sections):
        raise ValueError(
            f"{page}: {len(sections_in(text))} places between {BEGIN} and {END}, not {len(sections)}"
        )
    first, *parts = text.split(BEGIN)
    made = [
        f"\n\n{section}\n\n{END}{part.partition(END)[2]}"
        for section, part in zip(sections, parts, strict=True)
    ]
    page.write_text(BEGIN.join((first, *made)), encoding="utf-8")
