"""What ``twintrack checkpoint`` looks up and prints.

Apart from the commands themselves, so that their help does not load PyTorch.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from twintrack.errors import CheckpointError
from twintrack.storage import LocalFileSystem
from twintrack.training.checkpoint import (
    Inspection,
    Manifest,
    Status,
    TensorRecord,
    find_folders,
    inspect,
    scan,
)
from twintrack.training.checkpoint.manifest import step_of

__all__ = ["choose", "look", "print_list", "print_one"]


def look(folder: Path, *, digests: bool) -> list[Inspection]:
    """The state of every checkpoint at or below ``folder``.

    Raises:
        CheckpointError: if there is none.
    """
    fs = LocalFileSystem()
    if (step := step_of(folder.name)) is not None and folder.is_dir():
        return [inspect(fs, folder.parent, step, digests=digests)]
    entries = [entry for place in find_folders(folder) for entry in scan(fs, place)]
    if not entries:
        raise _none(folder)
    if not digests:
        return entries
    return [inspect(fs, entry.path.parent, entry.step, digests=True) for entry in entries]


def choose(text: str) -> tuple[Path, int]:
    """The folder and step that ``FOLDER[@STEP]`` means.

    Raises:
        CheckpointError: if there is none, or more than one folder of them.
    """
    name, mark, number = text.rpartition("@")
    path, wanted = (Path(name), int(number)) if mark and number.isdecimal() else (Path(text), None)
    if (step := step_of(path.name)) is not None:
        return path.parent, step
    folders = find_folders(path)
    if not folders:
        raise _none(path)
    if len(folders) > 1:
        raise CheckpointError(
            "one folder of checkpoints",
            found=f"{len(folders)}: {', '.join(str(folder) for folder in folders)}",
            where=str(path),
            remedy="name one of them",
        )
    entries = scan(LocalFileSystem(), folders[0])
    if wanted is None:
        whole = [entry.step for entry in entries if entry.status is Status.COMPLETE]
        return folders[0], max(whole or [entry.step for entry in entries])
    if wanted not in [entry.step for entry in entries]:
        raise CheckpointError(
            f"a checkpoint of step {wanted}",
            found=f"steps {', '.join(str(entry.step) for entry in entries)}",
            where=str(folders[0]),
            remedy="choose one of them",
        )
    return folders[0], wanted


def _none(folder: Path) -> CheckpointError:
    return CheckpointError(
        "checkpoints at or below this folder",
        found="none",
        where=str(folder),
        remedy="name a run that has saved one, or its 'checkpoints' folder",
    )


def _record(entry: Inspection) -> dict[str, Any]:
    manifest = entry.manifest
    return {
        "folder": str(entry.path.parent),
        "step": entry.step,
        "status": entry.status.value,
        "bytes": manifest.bytes if manifest else None,
        "files": len(manifest.files) if manifest else None,
        "created": manifest.created if manifest else None,
        "job_digest": manifest.job_digest if manifest else None,
        "problem": str(entry.problem) if entry.problem else None,
    }


def print_list(entries: list[Inspection], *, as_json: bool) -> None:
    """A table per folder, or JSON."""
    if as_json:
        click.echo(json.dumps([_record(entry) for entry in entries], indent=1))
        return
    console = Console(highlight=False, markup=False)
    for folder in dict.fromkeys(entry.path.parent for entry in entries):
        table = Table("step", "status", "files", "bytes", "job", "written (UTC)", box=None, pad_edge=False)
        for column in (0, 2, 3):
            table.columns[column].justify = "right"
        members = [entry for entry in entries if entry.path.parent == folder]
        for entry in members:
            record = _record(entry)
            table.add_row(
                str(entry.step),
                record["status"],
                _count(record["files"]),
                _count(record["bytes"]),
                (record["job_digest"] or "")[:12],
                (record["created"] or "")[:19].replace("T", " "),
            )
        console.print(str(folder), style="bold", soft_wrap=True)
        console.print(table)
        for entry in members:
            if entry.problem:
                console.print(f"  {entry.problem}", soft_wrap=True)


def print_one(folder: Path, manifest: Manifest, records: list[TensorRecord], values: dict[str, Any]) -> None:
    """What one checkpoint holds: facts, tensors by group, values."""
    console = Console(highlight=False, markup=False)
    console.print(f"step {manifest.step} in {folder}", style="bold", soft_wrap=True)
    facts = Table(show_header=False, box=None, pad_edge=False)
    facts.add_row("status", "complete (digests of tensors not compared: twintrack checkpoint verify)")
    facts.add_row("job", manifest.job_digest)
    facts.add_row("written", f"{manifest.created} by twintrack {manifest.version}")
    facts.add_row("size", f"{manifest.bytes:,} bytes in {len(manifest.files)} files")
    console.print(facts)
    groups = Table("group", "tensors", "types", "elements", "bytes", box=None, pad_edge=False)
    for column in (1, 3, 4):
        groups.columns[column].justify = "right"
    for group in dict.fromkeys(record.group for record in records):
        members = [record for record in records if record.group == group]
        groups.add_row(
            group,
            _count(len(members)),
            ", ".join(sorted({record.dtype for record in members})),
            _count(sum(record.elements for record in members)),
            _count(sum(record.bytes for record in members)),
        )
    console.print(groups)
    table = Table("value", "content", box=None, pad_edge=False)
    for name, value in sorted(values.items()):
        text = json.dumps(value)
        table.add_row(name, text if len(text) <= 60 else f"{text[:59]}…")
    console.print(table)


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"
