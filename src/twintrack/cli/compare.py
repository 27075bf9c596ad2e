"""``twintrack compare``: two runs of one job against each other."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["command"]


@click.command("compare")
@click.argument("first", metavar="RUN")
@click.argument("second", metavar="RUN")
@click.option(
    "--tolerance", type=click.FloatRange(0.0, 1.0, min_open=True), help="Default: the job's tolerances.loss."
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the bootstrap's draws."
)
@click.option(
    "--html", "page", type=click.Path(path_type=Path, dir_okay=False), help="Write the comparison as a page."
)
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
def command(
    first: str, second: str, tolerance: float | None, seed: int, page: Path | None, as_json: bool
) -> None:
    """Compare the second RUN, which is judged, with the first: losses by a stated test, slices, answers, starts,
    checkpoints, memory, recompiles.

    A RUN is FOLDER:TRACK, FOLDER:TRACK/interrupted, or FOLDER where it has one track. Runs of different jobs, data or
    weights are refused, and what differs is named. Exit code 0 means that the comparison was made, whatever it says.
    """
    import json

    from rich.console import Console

    from twintrack.pilot.compare.compare import compare_tracks_of, comparison_json
    from twintrack.pilot.compare.page import build_page
    from twintrack.pilot.compare.table import print_comparison
    from twintrack.pilot.runs import find_run
    from twintrack.report.html import render_page
    from twintrack.storage import LocalFileSystem, write_bytes_atomic

    fs = LocalFileSystem()
    comparison = compare_tracks_of(
        find_run(first, fs), find_run(second, fs), fs, seed=seed, tolerance=tolerance
    )
    if page is not None:
        write_bytes_atomic(fs, page, render_page(build_page(comparison)).encode())
    if as_json:
        click.echo(json.dumps(comparison_json(comparison), indent=1, ensure_ascii=False, allow_nan=False))
        return
    print_comparison(comparison, Console())
    if page is not None:
        click.echo(f"page: {page}")
