"""``twintrack import``: a run made elsewhere, from its events or its trainer's log, as a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from twintrack.job.records import TrackName
from twintrack.pilot.folders import RunKind
from twintrack.pilot.imports.formats import FORMATS

if TYPE_CHECKING:
    from twintrack.pilot.imports import ImportedRun

__all__ = ["command"]

_MOST_SHOWN = 10


@click.command(
    "import", epilog="Formats: " + "; ".join(f"{name}: {what}" for name, what in FORMATS.items()) + "."
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--as", "run", type=click.Path(path_type=Path), required=True, help="Run folder to make or add to."
)
@click.option(
    "--job", type=click.Path(path_type=Path), help="Job file of the run; default: the run folder's own."
)
@click.option("--track", type=click.Choice(get_args(TrackName)), required=True, help="What it ran on.")
@click.option("--kind", type=click.Choice(get_args(RunKind)), default="reference", show_default=True)
@click.option("--format", "format_", type=click.Choice(["auto", *FORMATS]), default="auto", show_default=True)
@click.option("--instance", metavar="NAME", help="Machine, as in 'twintrack hardware list'.")
@click.option(
    "--columns", multiple=True, metavar="FIELD=COLUMN,...", help="Where the log names a figure otherwise."
)
@click.option(
    "--first-step", type=click.Choice(["0", "1"]), default="1", show_default=True, help="How the log counts."
)
def command(
    file: Path,
    run: Path,
    job: Path | None,
    track: TrackName,
    kind: RunKind,
    format_: str,
    instance: str | None,
    columns: tuple[str, ...],
    first_step: str,
) -> None:
    """Bring FILE, the log of a run made elsewhere, into a run folder that every other command judges by its rules.

    Nothing in the log is executed, and a run that is there is never overwritten. What the log does not say stays
    unknown; what is wrong with it is told here and is a failure of the run. Exit code 0 means that it was imported.
    """
    from twintrack.job.load import load_job
    from twintrack.pilot.imports import ImportRequest, import_run, parse_columns
    from twintrack.storage import LocalFileSystem

    request = ImportRequest(
        file=file,
        folder=run,
        track=track,
        job=None if job is None else load_job(job),
        kind=kind,
        format=format_,
        instance=instance,
        columns=parse_columns(columns),
        first_step=0 if first_step == "0" else 1,
    )
    _tell(import_run(request, LocalFileSystem()))


def _tell(made: ImportedRun) -> None:
    told = made.imported
    click.echo(
        f"{made.run.track} {made.run.kind}: {made.events} events from {told.lines} lines of {told.file}"
    )
    click.echo(f"format {told.format}, sha256 {told.sha256}")
    for one in told.defects[:_MOST_SHOWN]:
        click.echo(f"  line {one.line}: {one.text}")
    if (more := len(told.defects) - _MOST_SHOWN) > 0:
        click.echo(f"  and {more} more, in {made.run.events}")
    click.echo(f"next: twintrack report {made.run.root}")
