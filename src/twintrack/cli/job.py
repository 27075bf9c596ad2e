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
    return {
        "path": str(loaded.path),
        "digest": loaded.digest,
        "training_digest": training_digest(loaded.job),
        "parts": comparable_parts(loaded.job),
        "values": [
            {"key": name, "value": value, "origin": str(loaded.origins[name])}
            for name, value in ((dotted(key), value) for key, value in effective_values(loaded.job))
        ],
    }


def _print_table(loaded: LoadedJob) -> None:
    # here and not above: rich is not needed to print JSON or a schema
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        "key", "value", "from", title=Text(f"{loaded.job.name} ({loaded.path})"), title_justify="left"
    )
    values = effective_values(loaded.job)
    for index, (key, value) in enumerate(values):
        origin = loaded.origins[dotted(key)]
        style = "dim" if origin.is_default else ""
        last = index + 1 == len(values) or (values[index + 1][0][0] != key[0] and len(key) > 1)
        table.add_row(
            Text(dotted(key)), Text(_shown(value)), Text(_place(origin)), style=style, end_section=last
        )
    console = Console()
    console.print(table)
    console.print(Text(f"job      {loaded.digest}\ntraining {training_digest(loaded.job)}"))


def _shown(value: Any) -> str:
    return "not set" if value is None else toml_value(value)


def _place(origin: Origin) -> str:
    return "default" if origin.path is None else f"{origin.path.name}:{origin.line}"
