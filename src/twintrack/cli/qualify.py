"""``twintrack qualify``: what a job needs and whether it fits, before anything is reserved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

    from twintrack.pilot.qualify.records import Qualification
    from twintrack.report.records import Table

__all__ = ["command"]

_STYLES = {"good": "bold green", "bad": "bold red", "warn": "bold yellow", "plain": ""}
_SIGNS = {"good": "✓ ", "bad": "✕ ", "warn": "! ", "plain": ""}
_WIDTH = 120


@click.command("qualify")
@click.argument("job", type=click.Path(path_type=Path), required=False)
@click.option("--track", help="Only this track, whether the job lists it or not: cpu, cuda, neuron, trn2.")
@click.option(
    "--instance", help="This instance of the catalogue instead of the job's, such as trn2.48xlarge."
)
@click.option("--full", is_flag=True, help="Also every module, moment of the step, device and operator.")
@click.option("--published", is_flag=True, help="Published memory figures beside ours; needs no JOB.")
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON for machines.")
def command(
    job: Path | None, track: str | None, instance: str | None, full: bool, published: bool, as_json: bool
) -> None:
    """Say whether JOB fits its tracks, from its configuration alone: no weight is read.

    The verdict of each track comes first: fits, does not fit and by how much, or too close to tell; then the smallest
    change that would make it fit. Exit code 0 means that the question was answered, whatever the answer.
    """
    if job is None and not published:
        raise click.UsageError("give a job file, or --published")
    from rich.console import Console

    found = None if job is None else _qualify(job, track, instance)
    if as_json:
        click.echo(_json(found, published))
        return
    console = Console(highlight=False)
    if found is not None:
        _print_qualification(console, found, full=full)
    if published:
        from twintrack.pilot.qualify.published import check_published, estimate_error
        from twintrack.pilot.qualify.tables import published_table

        checks = check_published()
        _print_tables(console, [published_table(checks)])
        if error := estimate_error(checks):
            console.print(
                f"error of our estimates: −{error.low:.0%} to +{error.high:.0%}", width=_width(console)
            )


def _qualify(path: Path, track: str | None, instance: str | None) -> Qualification:
    from rich.console import Console

    from twintrack.job.load import load_job

    loaded = load_job(path)  # first: what is wrong with a job is said at once
    from twintrack.hardware import load_catalogue
    from twintrack.pilot.qualify import qualify
    from twintrack.storage import LocalFileSystem

    # On standard error, so that what is piped stays clean; rich shows nothing where that is no terminal.
    with Console(stderr=True).status(f"qualifying {loaded.job.name}") as status:
        return qualify(
            loaded.job,
            loaded.base,
            load_catalogue(),
            LocalFileSystem(),
            track=track,
            instance=instance,
            progress=lambda doing: status.update(f"{loaded.job.name}: {doing}"),
        )


def _json(found: Qualification | None, published: bool) -> str:
    import json

    from twintrack.pilot.qualify.published import check_published
    from twintrack.report.values import plain_values

    content = {"format": "twintrack.qualification/1"}
    if found is not None:
        content |= plain_values(found)
    if published:
        content["published"] = plain_values(check_published())
    return json.dumps(content, indent=2, ensure_ascii=False)


def _print_qualification(console: Console, found: Qualification, *, full: bool) -> None:
    from rich.text import Text

    from twintrack.pilot.qualify.tables import detail_tables, main_tables, verdict_lines
    from twintrack.report.terminal import plain_text

    width = _width(console)
    for tone, line in verdict_lines(found):
        console.print(Text(_SIGNS[tone] + plain_text(line), style=_STYLES[tone]), width=width)
    tables = [*main_tables(found), *(detail_tables(found) if full else ())]
    _print_tables(console, tables)
    for remark in found.remarks:
        console.print(Text(f"- {plain_text(remark)}", style="dim"), width=width)


def _print_tables(console: Console, tables: list[Table]) -> None:
    from rich.text import Text

    from twintrack.report.terminal import kinds_line, terminal_table

    width = _width(console)
    lines: list[Text] = []
    for table in tables:
        console.print(Text())
        console.print(terminal_table(table), width=width)
        lines += [kinds_line(table)]
    console.print(Text())
    seen = dict.fromkeys(part for line in lines for part in line.plain.split("  ") if part)
    console.print(Text("  ".join(seen), style="dim"), width=width)


def _width(console: Console) -> int:
    return min(console.width, _WIDTH)
