"""``twintrack compare``: two runs of one job against each other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from twintrack.pilot.folders import TrackRun
    from twintrack.pilot.ledger.records import PilotLedger
    from twintrack.storage import FileSystem

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
@click.option("--cost", is_flag=True, help="With what both runs cost, from dated prices.")
@click.option(
    "--prices",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Price file, before the job's own; means --cost.",
)
@click.option("--on", metavar="DATE", help="Day to which prices are looked up, YYYY-MM-DD; default: today.")
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
def command(
    first: str,
    second: str,
    tolerance: float | None,
    seed: int,
    page: Path | None,
    cost: bool,
    prices: tuple[Path, ...],
    on: str | None,
    as_json: bool,
) -> None:
    """Compare the second RUN, which is judged, with the first: losses by a stated test, slices, answers, starts,
    checkpoints, memory, recompiles, cost.

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
    runs = find_run(first, fs), find_run(second, fs)
    ledgers = _ledgers(*runs, fs, prices, on) if cost or prices else (None, None)
    comparison = compare_tracks_of(*runs, fs, seed=seed, tolerance=tolerance, ledgers=ledgers)
    if page is not None:
        write_bytes_atomic(fs, page, render_page(build_page(comparison)).encode())
    if as_json:
        click.echo(json.dumps(comparison_json(comparison), indent=1, ensure_ascii=False, allow_nan=False))
        return
    print_comparison(comparison, Console())
    if page is not None:
        click.echo(f"page: {page}")


def _ledgers(
    first: TrackRun, second: TrackRun, fs: FileSystem, prices: tuple[Path, ...], on: str | None
) -> tuple[PilotLedger, PilotLedger]:
    """What each of the two runs cost on a day."""
    from twintrack.cli.evidence import day_of
    from twintrack.clock import SystemClock
    from twintrack.hardware import load_catalogue
    from twintrack.pilot.ledger.ledger import build_ledger

    catalogue, day = load_catalogue(), day_of(on, SystemClock())
    a, b = (
        build_ledger(run.root, fs, catalogue, on=day, prices=prices, track=run.track, kind=run.kind)
        for run in (first, second)
    )
    return a, b
