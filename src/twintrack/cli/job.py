"""``twintrack job``: what a job file means, and its JSON Schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from twintrack.job.digest import comparable_parts, training_digest
from twintrack.job.keys import dotted
from twintrack.job.load import LoadedJob, Origin, effective_values, load_job
from twintrack.job.schema import job_schema
from twintrack.job.write import toml_value

__all__ = ["command"]


@click.group("job")
def command() -> None:
    """Show what a job file means, or its JSON Schema."""


@command.command("show")
@click.argument("job", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
def show(job: Path, as_json: bool) -> None:
    """Print every effective value of JOB and where it came from."""
    loaded = load_job(job)
    if as_json:
        click.echo(json.dumps(_record(loaded), indent=1, ensure_ascii=False))
    else:
        _print_table(loaded)


@command.command("schema")
def schema() -> None:
    """Print the JSON Schema (draft 2020-12) of a job file."""
    click.echo(json.dumps(job_schema(), indent=1, ensure_ascii=False))


def _record(loaded: LoadedJob) -> dict[str, Any]:
    values = []
    for key, value in effective_values(loaded.job):
        origin = loaded.origins[dotted(key)]
        values.append({"key": dotted(key), "value": value, "origin": str(origin), "line": origin.line})
    return {
        "path": str(loaded.path),
        "digest": loaded.digest,
        "training_digest": training_digest(loaded.job),
        "parts": comparable_parts(loaded.job),
        "values": values,
    }


def _print_table(loaded: LoadedJob) -> None:
    # here and not above: rich is not needed to print JSON or a schema
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(f"{loaded.job.name} ({loaded.path})"), title_justify="left")
    for heading in ("key", "value", "from"):
        table.add_column(heading, overflow="fold")
    values = effective_values(loaded.job)
    for index, (key, value) in enumerate(values):
        origin = loaded.origins[dotted(key)]
        following = values[index + 1][0] if index + 1 < len(values) else ()
        table.add_row(
            *map(Text, (dotted(key), _shown(value), _place(origin))),
            style="dim" if origin.is_default else "",
            end_section=following[:1] != key[:1] and len(following) > 1,
        )
    console = Console()
    console.print(table)
    console.print(Text(f"job digest      {loaded.digest}\ntraining digest {training_digest(loaded.job)}"))


def _shown(value: Any) -> str:
    return "not set" if value is None else toml_value(value)


def _place(origin: Origin) -> str:
    return "default" if origin.path is None else f"{origin.path.name}:{origin.line}"
