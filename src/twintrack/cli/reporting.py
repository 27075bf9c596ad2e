"""What ``pilot`` and ``report`` share: a run folder to its report, with the verdict that follows from it today."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import datetime

    from rich.console import Console

    from twintrack.pilot.page import Decided
    from twintrack.pilot.summary_records import Summary
    from twintrack.storage import FileSystem

__all__ = ["report_folder"]


def report_folder(folder: Path, console: Console) -> tuple[Summary, Path]:
    """Write ``summary.json`` and ``report.html`` again, print the table and the verdict.

    Raises:
        TwintrackError: if the folder cannot be read or written.
    """
    from twintrack.cli.evidence import day_of
    from twintrack.clock import SystemClock
    from twintrack.pilot.page import write_report
    from twintrack.pilot.summary import write_summary
    from twintrack.pilot.table import print_summary
    from twintrack.storage import LocalFileSystem

    fs = LocalFileSystem()
    summary = write_summary(folder, fs)
    print_summary(summary, console)
    with console.status("weighing what was measured"):
        decided = _decided(folder, fs, day_of(None, SystemClock()))
        page = write_report(summary, folder, fs, decided)
    console.print()
    console.print(f"verdict: {decided.verdict.sentence}", highlight=False, soft_wrap=True)
    return summary, page


def _decided(folder: Path, fs: FileSystem, on: datetime.date) -> Decided:
    """The verdict on the job that the run began with, from this folder alone."""
    from twintrack.hardware.catalogue import load_catalogue
    from twintrack.pilot.decide.gather import gather
    from twintrack.pilot.decide.verdict import decide
    from twintrack.pilot.manifest import base_of, read_job_file
    from twintrack.pilot.page import Decided as Record

    job, base = read_job_file(folder, fs), base_of(folder, fs)
    evidence = gather(
        job,
        base,
        "job.json",
        [folder],
        fs,
        load_catalogue(),
        prices=(),
        on=on,
        machine_times={},
        named=False,
    )
    ledgers = tuple(one for pilot in evidence.pilots for one in pilot.ledger.tracks)
    return Record(decide(evidence), ledgers, evidence.comparisons)
