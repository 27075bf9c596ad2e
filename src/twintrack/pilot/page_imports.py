"""What a report says of runs that were made elsewhere, or by another version."""

from __future__ import annotations

from collections import Counter

from twintrack.pilot.page_overview import NONE
from twintrack.pilot.summary_records import RunSummary, Summary
from twintrack.report.records import Block, Callout, Cell, Column, Section, Status, Table

__all__ = ["imported_runs", "version_remarks"]

_NAMES = {
    "hole": "holes",
    "time_backwards": "backwards in time",
    "not_finite": "not a finite number",
    "duplicate": "again",
    "unreadable": "unreadable",
    "unknown_field": "without a place here",
}


def imported_runs(summary: Summary) -> tuple[Section, ...]:
    """The logs that runs were read from, and what was wrong with them; nothing where every run was made here."""
    runs = [run for track in summary.tracks for run in track.runs if run.imported]
    if not runs:
        return ()
    lead = (
        "These runs were made elsewhere. Their figures are measured, by the machine that the log comes from; what a "
        "log does not say is unknown. Which job it was is the word of whoever imported it."
    )
    return (Section("Imported logs", (_logs(runs), *_defects(runs)), lead),)


def _logs(runs: list[RunSummary]) -> Table:
    columns = (
        Column("run"),
        Column("log"),
        Column("format"),
        Column("lines", numeric=True),
        Column("training as a whole", numeric=True, note="as the log tells it"),
        Column("wrong with it"),
        Column("SHA-256"),
    )
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        for log in run.imported:
            counts: Counter[str] = Counter(one.what for one in log.defects)
            told = ", ".join(f"{counts[what]} {name}" for what, name in _NAMES.items() if counts[what])
            spoiled = any(one.spoils for one in log.defects)
            state = Status(told or "nothing", "bad" if spoiled else "plain" if told else "good")
            name = f"{run.track} · {run.run}"
            rows.append((name, log.file, log.format, log.lines, log.training_seconds, state, log.sha256))
    return Table("", columns, tuple(rows))


def _defects(runs: list[RunSummary]) -> list[Block]:
    rows = tuple(
        (
            f"{run.track} · {run.run}",
            str(one.line),
            NONE if one.step is None else str(one.step),
            _NAMES[one.what],
            one.text,
        )
        for run in runs
        for log in run.imported
        for one in log.defects
    )
    heads = (Column("run"), Column("line", numeric=True), Column("step", numeric=True), Column("kind"))
    return [Table("what is wrong with the logs", (*heads, Column("what")), rows, folded=True)] if rows else []


def version_remarks(summary: Summary, version: str) -> tuple[Block, ...]:
    """A remark where another version made the run folder or one of its processes.

    Args:
        summary: of the run folder.
        version: of the twintrack that makes the report.
    """
    items = []
    if summary.version != version:
        items.append(f"The run folder was made by twintrack {summary.version}.")
    for run in (run for track in summary.tracks for run in track.runs):
        theirs = dict(run.environment).get("twintrack", version)
        if theirs not in (version, summary.version):
            items.append(f"{run.track} · {run.run} was run by twintrack {theirs}.")
    if not items:
        return ()
    text = "What it did not yet write down is taken as unknown, or as the default of that time."
    return (Callout("plain", f"Reported by twintrack {version}", text, tuple(items)),)
