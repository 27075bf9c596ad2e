"""``twintrack checkpoint``: list, verify and show checkpoints, wherever they stand below a folder."""

from __future__ import annotations

import json
from pathlib import Path

import click

__all__ = ["command"]

_FOLDER = click.argument("folder", type=click.Path(path_type=Path))
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")


@click.group("checkpoint")
def command() -> None:
    """List, verify and show checkpoints.

    FOLDER is a folder of checkpoints, or any folder above some, such as a run.
    """


@command.command("list")
@_FOLDER
@_JSON
def list_command(folder: Path, as_json: bool) -> None:
    """What is there, with sizes compared but not digests."""
    from twintrack.cli.checkpoint_views import look, print_list

    print_list(look(folder, digests=False), as_json=as_json)


@command.command("verify")
@_FOLDER
@_JSON
def verify_command(folder: Path, as_json: bool) -> None:
    """Read every file and compare its digest; exit code 2 if a checkpoint is damaged.

    Debris, which is what a killed writer leaves, is named but is no damage: it never was a checkpoint.
    """
    from rich.console import Console

    from twintrack.cli.checkpoint_views import look, print_list
    from twintrack.errors import CheckpointError
    from twintrack.training.checkpoint import Status

    with Console(stderr=True).status("comparing digests"):
        found = look(folder, digests=True)
    print_list(found, as_json=as_json)
    damaged = [entry for entry in found if entry.status is Status.DAMAGED]
    if damaged:
        raise CheckpointError(
            "checkpoints as they were written",
            found=f"{len(damaged)} damaged of {len(found)}, the first {damaged[0].path}",
            where=str(folder),
            remedy="a run resumes from the newest whole one; remove the damaged ones or restore their files",
        )


@command.command("show")
@click.argument("checkpoint", metavar="FOLDER[@STEP]")
@_JSON
def show_command(checkpoint: str, as_json: bool) -> None:
    """What one checkpoint holds: files, tensors by group, values. Without STEP the newest complete one."""
    from twintrack.cli.checkpoint_views import choose, print_one
    from twintrack.storage import LocalFileSystem
    from twintrack.training.checkpoint import inspect, read_values, tensor_records

    fs = LocalFileSystem()
    folder, step = choose(checkpoint)
    manifest = inspect(fs, folder, step).require()
    values = read_values(fs, folder, manifest)
    records = tensor_records(folder, manifest)
    if as_json:
        tensors = {r.name: {"dtype": r.dtype, "shape": r.shape, "file": r.file} for r in records}
        document = {"folder": str(folder)} | manifest.model_dump(mode="json")
        click.echo(json.dumps(document | {"tensors": tensors, "values": values}, indent=1, sort_keys=True))
        return
    print_one(folder, manifest, records, values)
