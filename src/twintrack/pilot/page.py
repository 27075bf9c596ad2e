"""A pilot's summary and what follows from it as a report: the verdict first, then what it rests on.

The records of ``report`` are filled from those of summary, verdict, ledger and comparison; no figure is made here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import twintrack
from twintrack.pilot.compare.page import quality_sections
from twintrack.pilot.compare.records import RunComparison
from twintrack.pilot.decide.page import sections, verdict_callout
from twintrack.pilot.decide.records import Verdict
from twintrack.pilot.ledger.page import ledger_sections
from twintrack.pilot.ledger.records import TrackLedger
from twintrack.pilot.page_imports import imported_runs, version_remarks
from twintrack.pilot.page_loss import answers, losses, slices
from twintrack.pilot.page_overview import NONE, basis, headline, limits, outcome_table, ran
from twintrack.pilot.page_resume import resume
from twintrack.pilot.page_rules import number_rules
from twintrack.pilot.page_start import compilation, starts
from twintrack.pilot.summary_records import Summary
from twintrack.report.html import render_page
from twintrack.report.records import Block, Cell, Column, Page, Section, Table
from twintrack.storage import FileSystem, write_bytes_atomic

__all__ = ["Decided", "build_page", "write_report"]


@dataclass(frozen=True, slots=True)
class Decided:
    """What follows from a run folder on one day."""

    verdict: Verdict
    ledgers: tuple[TrackLedger, ...]
    comparisons: tuple[RunComparison, ...]


def build_page(
    summary: Summary, decided: Decided | None = None, *, version: str = twintrack.__version__
) -> Page:
    """The report of a pilot, with the verdict first where there is one.

    Args:
        summary: of the run folder.
        decided: what follows from it.
        version: of the twintrack that makes the report.
    """
    tracks = ", ".join(track.track for track in summary.tracks) or "no track"
    return Page(
        title=f"Pilot of {summary.job.name}",
        subtitle=f"{summary.job.model.source} on {tracks}, {summary.job.stop.steps} steps",
        head=(
            *_verdict(decided),
            headline(summary),
            *version_remarks(summary, version),
            outcome_table(summary),
        ),
        sections=(
            *_decision(decided),
            ran(summary),
            *imported_runs(summary),
            losses(summary),
            starts(summary),
            resume(summary),
            *number_rules(summary),
            slices(summary),
            answers(summary),
            compilation(summary),
            _memory(summary),
            basis(summary),
            limits(summary),
        ),
        footer=f"Made by twintrack from the events of the run; job digest {summary.job_digest}.",
    )


def _verdict(decided: Decided | None) -> tuple[Block, ...]:
    return () if decided is None else (verdict_callout(decided.verdict),)


def _decision(decided: Decided | None) -> tuple[Section, ...]:
    """Rules, matrix, sensitivity, ledgers, comparisons."""
    if decided is None:
        return ()
    return (
        *sections(decided.verdict),
        *ledger_sections(decided.ledgers),
        *(section for one in decided.comparisons for section in quality_sections(one)),
    )


def _memory(summary: Summary) -> Section:
    rows: list[tuple[Cell, ...]] = [
        (
            f"{run.track} · {run.run}",
            run.peak_memory,
            run.peak_memory.conditions or NONE,
            run.tokens_per_second,
        )
        for track in summary.tracks
        for run in track.runs
    ]
    columns = (
        Column("run"),
        Column("peak memory", numeric=True),
        Column("as told by"),
        Column("tokens per second, median step", numeric=True),
    )
    note = "The largest of a run's processes. Tokens are those of real samples, padding left out."
    return Section("Memory and speed", (Table("", columns, tuple(rows), note),))


def write_report(summary: Summary, folder: Path, fs: FileSystem, decided: Decided | None = None) -> Path:
    """Write ``report.html`` into the run folder, whole or not at all, and return its path.

    Raises:
        StorageError: if it cannot be written; an older report is then as it was.
    """
    path = folder / "report.html"
    write_bytes_atomic(fs, path, render_page(build_page(summary, decided)).encode())
    return path
