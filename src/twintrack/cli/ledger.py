"""``twintrack ledger``: what a run cost, line by line."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["command"]


@click.command("ledger")
@click.argument("run")
@click.option(
    "--prices", type=click.Path(path_type=Path), multiple=True, help="Price file; comes before the job's own."
)
@click.option("--on", metavar="DATE", help="Day to which prices are looked up, YYYY-MM-DD; default: today.")
@click.option(
    "--abandoned",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Run folder of a trial that never finished; its machine time is a line.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the ledger as JSON, every input with its source."
)
def command(
    run: str, prices: tuple[Path, ...], on: str | None, abandoned: tuple[Path, ...], as_json: bool
) -> None:
    """Show what RUN cost, line by line: a run folder, FOLDER:TRACK or FOLDER:TRACK/KIND.

    Money is computed now, from dated prices: price files, then the hardware catalogue for the job's region and way of
    buying. What is not known is said to be unknown, with the reason.
    """
    import json

    from rich.console import Console

    from twintrack.cli.evidence import day_of
    from twintrack.clock import SystemClock
    from twintrack.hardware import load_catalogue
    from twintrack.pilot.ledger.ledger import build_ledger, ledger_json
    from twintrack.pilot.ledger.table import print_ledger
    from twintrack.pilot.runs import find_runs
    from twintrack.storage import LocalFileSystem

    fs, catalogue, day = LocalFileSystem(), load_catalogue(), day_of(on, SystemClock())
    if fs.exists(Path(run) / "pilot.json"):
        ledger = build_ledger(Path(run), fs, catalogue, on=day, prices=prices, abandoned=abandoned)
    else:
        (found,) = find_runs(run, fs)
        named = run.rpartition("/")[2] == found.kind
        ledger = build_ledger(
            found.root,
            fs,
            catalogue,
            on=day,
            prices=prices,
            abandoned=abandoned,
            track=found.track,
            kind=found.kind if named else None,
        )
    if as_json:
        click.echo(json.dumps(ledger_json(ledger), indent=1, ensure_ascii=False, allow_nan=False))
        return
    print_ledger(ledger, Console())
