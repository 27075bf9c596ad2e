"""``twintrack pilot``: run a job on its tracks under the protocol, and report."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

    from twintrack.clock import Clock
    from twintrack.job.load import LoadedJob
    from twintrack.pilot.protocol import Pilot

__all__ = ["command"]

_SAME_WISH_SECONDS = 1.0


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
    from twintrack.job.load import load_job

    loaded = None if job is None else load_job(job)  # first: what is wrong with a job is said at once
    from rich.console import Console

    from twintrack.cli.progress import open_display
    from twintrack.clock import SystemClock
    from twintrack.compiler.cache import default_cache_root
    from twintrack.errors import UserError
    from twintrack.pilot.protocol import Pilot, discard_unused
    from twintrack.storage import LocalFileSystem

    console = Console()
    folder = _begin(loaded, out, console) if loaded is not None else resume or Path()
    root = cache if cache is not None else default_cache_root(os.environ)
    with open_display(console) as display:
        clock = SystemClock()
        pilot = Pilot(folder, root, display, LocalFileSystem(), clock)
        try:
            with _stopping_by_signal(pilot, clock):
                pilot.run()
        except UserError:
            if resume is None:
                discard_unused(folder, LocalFileSystem())
            raise
    sys.exit(_report(folder, console))


def _begin(loaded: LoadedJob, out: Path | None, console: Console) -> Path:
    from twintrack.pilot.protocol import begin, free_folder
    from twintrack.storage import LocalFileSystem

    folder = out if out is not None else free_folder(Path("runs"), loaded.job.name)
    begin(loaded, folder, LocalFileSystem())
    console.print(f"run folder: {folder}", highlight=False, soft_wrap=True)
    return folder


@contextmanager
def _stopping_by_signal(pilot: Pilot, clock: Clock) -> Iterator[None]:
    """Ctrl-C and SIGTERM inside the block ask the pilot to save and end; outside they do what they did before.

    A second signal ends the worker at once, and the run can still be resumed. One that comes with the first is the
    same wish: ``timeout`` and terminals signal a process and its group.
    """
    first: list[float] = []

    def stop(*_: object) -> None:
        now = clock.monotonic()
        if first and now - first[0] > _SAME_WISH_SECONDS:
            raise pilot.interrupted("a second request to stop, before the worker had saved")
        if not first:
            first.append(now)
            pilot.stop()

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, stop) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _report(folder: Path, console: Console) -> int:
    from twintrack.cli.reporting import report_folder

    summary, page = report_folder(folder, console)
    console.print(f"report: {page}", highlight=False, soft_wrap=True)
    return 1 if summary.failures else 0
