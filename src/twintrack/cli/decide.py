"""``twintrack decide``: the verdict on a job from its runs."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["command"]


@click.command("decide")
@click.argument("job", type=click.Path(path_type=Path))
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option(
    "--prices", type=click.Path(path_type=Path), multiple=True, help="Price file; comes before the job's own."
)
@click.option("--on", metavar="DATE", help="Day to which prices are looked up, YYYY-MM-DD; default: today.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
def command(
    job: Path, runs: tuple[str, ...], prices: tuple[Path, ...], on: str | None, as_json: bool
) -> None:
    """Decide from run folders whether JOB belongs on Trainium2: accepted, refused or undecided, with reasons.

    Prices, answers and tolerances are those of the job file as it is now; runs must be of the same training. Exit
    code 0 means that there is a verdict, whatever it is.
    """
    import json

    from rich.console import Console

    from twintrack.cli.evidence import gather_evidence
    from twintrack.pilot.decide.table import print_verdict
    from twintrack.pilot.decide.verdict import decide
    from twintrack.report.values import plain_values

    with Console(stderr=True).status("reading runs, prices and proofs"):
        verdict = decide(gather_evidence(job, runs, prices, on))
    if as_json:
        click.echo(
            json.dumps({"format": 1, **plain_values(verdict)}, indent=1, ensure_ascii=False, allow_nan=False)
        )
        return
    print_verdict(verdict, Console())
