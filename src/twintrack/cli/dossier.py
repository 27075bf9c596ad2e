"""``twintrack dossier``: the capacity request, from the job and its runs."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["command"]


@click.command("dossier")
@click.argument("job", type=click.Path(path_type=Path))
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="Folder to write into.")
@click.option(
    "--prices", type=click.Path(path_type=Path), multiple=True, help="Price file; comes before the job's own."
)
@click.option("--on", metavar="DATE", help="Day to which prices are looked up, YYYY-MM-DD; default: today.")
def command(job: Path, runs: tuple[str, ...], out: Path, prices: tuple[Path, ...], on: str | None) -> None:
    """Write what a capacity request must contain, as dossier.md, dossier.html and dossier.json.

    While a required field is empty nothing is written, and every empty field is named with where it is filled.
    """
    from rich.console import Console

    from twintrack.cli.evidence import gather_evidence
    from twintrack.pilot.decide.verdict import decide
    from twintrack.pilot.dossier.build import build_dossier, require_complete
    from twintrack.pilot.dossier.page import write_dossier
    from twintrack.storage import LocalFileSystem

    with Console(stderr=True).status("reading runs, prices and proofs"):
        evidence = gather_evidence(job, runs, prices, on)
        dossier = build_dossier(evidence, decide(evidence))
    require_complete(dossier, str(job))
    for path in write_dossier(dossier, out, LocalFileSystem()):
        click.echo(f"wrote {path}")
