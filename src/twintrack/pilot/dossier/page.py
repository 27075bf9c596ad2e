"""A dossier as one HTML file that opens without a network, and the three files that are written."""

from __future__ import annotations

from pathlib import Path

from twintrack.errors import RunFolderError
from twintrack.pilot.decide.page import figures_text, sections, verdict_callout
from twintrack.pilot.dossier.markdown import dossier_markdown
from twintrack.pilot.dossier.records import Dossier, Entry, Part
from twintrack.pilot.ledger.page import ledger_sections
from twintrack.report.html import render_page
from twintrack.report.records import Callout, Cell, Column, Page, Section, Status, Table
from twintrack.report.values import plain_values
from twintrack.storage import FileSystem, storage_errors, write_bytes_atomic, write_json_atomic

__all__ = ["dossier_page", "write_dossier"]

_NAMES = ("dossier.json", "dossier.md", "dossier.html")


def write_dossier(dossier: Dossier, folder: Path, fs: FileSystem) -> tuple[Path, ...]:
    """Write ``dossier.json``, ``dossier.md`` and ``dossier.html`` into a folder, each whole or not at all.

    Raises:
        RunFolderError: if the folder is a run folder.
        StorageError: if the file system refuses.
    """
    if fs.exists(folder / "pilot.json"):
        raise RunFolderError(
            "a folder for the dossier alone",
            found="a run folder",
            where=str(folder),
            remedy="give another folder",
        )
    with storage_errors(folder, "make the dossier's folder"):
        fs.make_folder(folder)
    paths = tuple(folder / name for name in _NAMES)
    write_json_atomic(fs, paths[0], {"format": 1, **plain_values(dossier)})
    write_bytes_atomic(fs, paths[1], dossier_markdown(dossier).encode())
    write_bytes_atomic(fs, paths[2], render_page(dossier_page(dossier)).encode())
    return paths


def dossier_page(dossier: Dossier) -> Page:
    """The dossier as a page: verdict, request, ledgers, risks, responsibilities, then what the verdict rests on."""
    return Page(
        title=f"Capacity request: {dossier.job}",
        subtitle=f"made on {dossier.on} by twintrack {dossier.version}",
        head=(verdict_callout(dossier.verdict), _table(dossier.parts[0])),
        sections=(
            *(Section(part.title, (_table(part),)) for part in dossier.parts[1:]),
            *ledger_sections(dossier.ledgers),
            Section(
                "Risks",
                (Callout("warn", f"{len(dossier.risks)} risks follow from the evidence", "", dossier.risks),),
            ),
            Section("Who answers for what", (_duties(dossier),)),
            *sections(dossier.verdict),
        ),
        footer=f"Job digest {dossier.job_digest}.",
    )


def _table(part: Part) -> Table:
    rows = tuple((entry.name, _value(entry), entry.source) for entry in part.entries)
    return Table("", (Column(part.title.lower()), Column(""), Column("from")), rows)


def _value(entry: Entry) -> Cell:
    """One figure keeps its mark; several stand in words with their kinds."""
    if len(entry.figures) == 1 and not entry.text:
        return entry.figures[0].value
    texts = [text for text in (entry.text, figures_text(entry.figures)) if text]
    return "; ".join(texts) or Status("empty", "bad")


def _duties(dossier: Dossier) -> Table:
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (duty.what, duty.who or Status("nobody", "bad")) for duty in dossier.duties
    )
    return Table("", (Column("what"), Column("who answers")), rows)
