"""A pilot's summary as a report: the records of ``report`` filled from those of the summary, nothing else."""

from __future__ import annotations

from pathlib import Path

import twintrack
from twintrack.pilot.page_imports import imported_runs, version_remarks
from twintrack.pilot.page_loss import answers, losses, slices
from twintrack.pilot.page_overview import NONE, basis, headline, limits, outcome_table, ran
from twintrack.pilot.page_resume import resume
from twintrack.pilot.page_rules import number_rules
from twintrack.pilot.page_start import compilation, starts
from twintrack.pilot.summary_records import Summary
from twintrack.report.html import render_page
from twintrack.report.records import Cell, Column, Page, Section, Table
from twintrack.storage import FileSystem, write_bytes_atomic

__all__ = ["build_page", "write_report"]


def build_page(summary: Summary, version: str = twintrack.__version__) -> Page:
    """The report of a pilot; every figure on it is one of the summary's.

    Args:
        summary: of the run folder.
        version: of the twintrack that makes the report.
    """
    tracks = ", ".join(track.track for track in summary.tracks) or "no track"
    return Page(
        title=f"Pilot of {summary.job.name}",
        subtitle=f"{summary.job.model.source} on {tracks}, {summary.job.stop.steps} steps",
        head=(headline(summary), *version_remarks(summary, version), outcome_table(summary)),
        sections=(
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


def write_report(summary: Summary, folder: Path, fs: FileSystem) -> Path:
    """Write ``report.html`` into the run folder, whole or not at all, and return its path.

    Raises:
        StorageError: if it cannot be written; an older report is then as it was.
    """
    path = folder / "report.html"
    write_bytes_atomic(fs, path, render_page(build_page(summary)).encode())
    return path
