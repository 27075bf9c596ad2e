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

    Nothing is trained or measured; money and verdict are those of today. Exit code 0 means that the report was made,
    whatever it says; summary.json says whether the pilot passed.
    """
    from rich.console import Console

    from twintrack.cli.reporting import report_folder

    _, page = report_folder(run, Console())
    click.echo(f"report: {page}")
    if show:
        click.launch(str(page.resolve()))
