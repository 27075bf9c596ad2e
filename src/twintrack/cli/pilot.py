"""``twintrack pilot``: run a job on its tracks under the protocol, and report."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

    from twintrack.pilot.protocol import Pilot

__all__ = ["command"]


@click.command("pilot")
@click.argument("job", type=click.Path(path_type=Path), required=False)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Run folder to make; default: runs/NAME-1, -2, ..."
)
@click.option("--resume", type=click.Path(path_type=Path), metavar="RUN", help="Go on with this run folder.")
@click.option(
    "--cache",
    type=click.Path(path_type=Path),
    help="Folder of compiled programs and converted weights; default: TWINTRACK_CACHE, else the user's cache.",
)
def command(job: Path | None, out: Path | None, resume: Path | None, cache: Path | None) -> None:
    """Run JOB on each of its tracks: uninterrupted, and stopped and killed as the job says; compare; report.

    Ctrl-C saves and ends; 'twintrack pilot --resume RUN' then finishes the run with the same bits. Exit code 0:
    everything that had to hold did; 1: it did not, and the report says what.
    """
    if (job is None) == (resume is None):
        raise click.UsageError("give a job file, or --resume RUN")
    if resume is not None and out is not None:
        raise click.UsageError("--resume goes on in its own folder; leave --out away")
    from rich.console import Console

    from twintrack.cli.progress import open_display
    from twintrack.clock import SystemClock
    from twintrack.compiler.cache import default_cache_root
    from twintrack.pilot.protocol import Pilot
    from twintrack.storage import LocalFileSystem

    console = Console()
    folder = resume or _begin(job or Path(), out, console)
    root = cache if cache is not None else default_cache_root(os.environ)
    with open_display(console) as display:
        pilot = Pilot(folder, root, display, LocalFileSystem(), SystemClock())
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: _stop(pilot))
        pilot.run()
    sys.exit(_report(folder, console))


def _begin(job: Path, out: Path | None, console: Console) -> Path:
    from twintrack.job.load import load_job
    from twintrack.pilot.protocol import begin, free_folder
    from twintrack.storage import LocalFileSystem

    loaded = load_job(job)
    folder = out if out is not None else free_folder(Path("runs"), loaded.job.name)
    begin(loaded, folder, LocalFileSystem())
    console.print(f"run folder: {folder}", highlight=False, soft_wrap=True)
    return folder


def _stop(pilot: Pilot) -> None:
    """The first signal lets the worker save; a second one ends it at once, and the run can still be resumed."""
    if pilot.stopping:
        raise KeyboardInterrupt
    pilot.stop()


def _report(folder: Path, console: Console) -> int:
    from twintrack.pilot.page import write_report
    from twintrack.pilot.summary import write_summary
    from twintrack.pilot.table import print_summary
    from twintrack.storage import LocalFileSystem

    fs = LocalFileSystem()
    summary = write_summary(folder, fs)
    page = write_report(summary, folder, fs)
    print_summary(summary, console)
    console.print(f"report: {page}", highlight=False, soft_wrap=True)
    return 1 if summary.failures else 0
