"""``twintrack report``: the report of a run again, from its events alone."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["command"]


@click.command("report")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--open", "show", is_flag=True, help="Open the page in the browser.")
def command(run: Path, show: bool) -> None:
    """Make report.html and summary.json of the run folder RUN again, from its events alone.

    Nothing is trained or measured. Exit code 0 means that the report was made, whatever it says; summary.json
    says whether the pilot passed.
    """
    from rich.console import Console

    from twintrack.pilot.page import write_report
    from twintrack.pilot.summary import write_summary
    from twintrack.pilot.table import print_summary
    from twintrack.storage import LocalFileSystem

    fs = LocalFileSystem()
    summary = write_summary(run, fs)
    page = write_report(summary, run, fs)
    print_summary(summary, Console())
    click.echo(f"report: {page}")
    if show:
        click.launch(str(page.resolve()))
