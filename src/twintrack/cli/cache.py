"""``twintrack cache``: what compiled programs are kept, why each is there, whether they are whole, and room."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from twintrack.clock import Clock, SystemClock
from twintrack.compiler.cache import CompileCache, Entry, Problem, default_cache_root, programs_folder
from twintrack.compiler.cacherecords import Survey
from twintrack.errors import CacheError
from twintrack.storage import LocalFileSystem

__all__ = ["command"]

_Reader = Callable[[click.Context, click.Parameter, str | None], float | None]
_SIZES: Mapping[str, int] = MappingProxyType(
    {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
)
_AGES: Mapping[str, float] = MappingProxyType({"s": 1, "m": 60, "h": 3_600, "d": 86_400})
_DIGITS = 12
"""Characters of a key digest that a table shows."""


def _scaled(name: str, units: Mapping[str, float], example: str) -> _Reader:
    """Reads a number with a unit, such as ``example``, from an option."""

    def read(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
        if value is None:
            return None
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", value.strip().lower())
        if match is None or match[2] not in units:
            raise click.BadParameter(f"'{value}' is no {name}; write one such as {example}", ctx, param)
        return float(match[1]) * units[match[2]]

    return read


_ROOT = click.option(
    "--cache",
    "root",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of caches; default: TWINTRACK_CACHE, else the user's cache.",
)
_JSON = click.option("--json", "as_json", is_flag=True, help="For machines: one JSON document.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Look at, verify and prune the compile cache."""


@command.command(name="list")
@_ROOT
@_JSON
def list_entries(root: Path | None, as_json: bool) -> None:
    """Show the programs that are kept, most recently used first."""
    clock = SystemClock()
    cache = _open(root, clock)
    entries = cache.entries()[::-1]
    total = Survey(tuple(entries), ()).bytes
    if as_json:
        _print_json(cache, entries=[_entry_json(entry) for entry in entries], bytes=total)
        return
    console = Console(highlight=False, markup=False)
    if entries:
        console.print(_table(entries, clock))
    plural = "program" if len(entries) == 1 else "programs"
    console.print(f"{len(entries)} {plural}, {_size(total)}, in {cache.root}", soft_wrap=True)


@command.command()
@click.argument("name", metavar="PROGRAM|KEY")
@_ROOT
@_JSON
def explain(name: str, root: Path | None, as_json: bool) -> None:
    """Show what a program was compiled from, and why it was compiled again.

    PROGRAM is a name of 'twintrack cache list'; KEY is at least six characters of the beginning of a key.
    """
    cache = _open(root, SystemClock())
    found = cache.explain(name)
    if as_json:
        described = [_entry_json(entry) | {"reason": found.reasons[entry.digest]} for entry in found.entries]
        _print_json(cache, entries=described)
        return
    console = Console(highlight=False, markup=False)
    for entry in found.entries:
        console.print(f"{entry.program} {entry.digest}", style="bold", soft_wrap=True)
        console.print(found.reasons[entry.digest], soft_wrap=True)
        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        for part, text in entry.parts.items():
            grid.add_row(f"  {part}", text)
        for label, value in entry.meta.items():
            grid.add_row(f"  ({label})", json.dumps(value, ensure_ascii=False))
        console.print(grid)


@command.command()
@_ROOT
@_JSON
def verify(root: Path | None, as_json: bool) -> None:
    """Read every file and compare digests; exit code 2 if a program is damaged.

    Debris, which is what a killed writer leaves, is named but is no damage. Nothing is changed.
    """
    cache = _open(root, SystemClock())
    problems = cache.verify()
    if as_json:
        _print_json(cache, problems=[_problem_json(problem) for problem in problems])
    else:
        console = Console(highlight=False, markup=False)
        for problem in problems:
            console.print(f"{problem.kind}: {problem.path}: {problem.found}", soft_wrap=True)
        if not problems:
            console.print(f"all programs are whole, in {cache.root}", soft_wrap=True)
    damaged = [problem for problem in problems if problem.kind == "damaged"]
    if damaged:
        raise CacheError(
            "programs as they were written",
            found=f"{len(damaged)} damaged, the first {damaged[0].path}",
            where=str(cache.root),
            remedy="'twintrack cache prune' removes them; they are compiled again when they are needed",
        )


@command.command()
@click.option(
    "--max-size",
    callback=_scaled("size", _SIZES, "500MB or 2GiB"),
    metavar="SIZE",
    help="Keep at most this much, such as 500MB.",
)
@click.option(
    "--older-than",
    callback=_scaled("age", _AGES, "12h or 30d"),
    metavar="AGE",
    help="Remove what was not used for this long, such as 30d.",
)
@click.option("--all", "everything", is_flag=True, help="Remove every program.")
@_ROOT
@_JSON
def prune(
    max_size: float | None, older_than: float | None, everything: bool, root: Path | None, as_json: bool
) -> None:
    """Remove damaged programs and debris, and the programs that the options name.

    Files that the cache did not write are never removed.
    """
    cache = _open(root, SystemClock())
    size = None if max_size is None else int(max_size)
    done = cache.prune(max_bytes=size, older_than=older_than, everything=everything)
    if as_json:
        _print_json(
            cache,
            removed=[_entry_json(entry) for entry in done.entries],
            problems=[_problem_json(problem) for problem in done.problems],
            freed_bytes=done.freed_bytes,
        )
        return
    console = Console(highlight=False, markup=False)
    for problem in done.problems:
        console.print(f"removed {problem.kind}: {problem.path}: {problem.found}", soft_wrap=True)
    for entry in done.entries:
        console.print(f"removed {entry.program} {entry.digest[:_DIGITS]}", soft_wrap=True)
    console.print(f"{_size(done.freed_bytes)} freed, in {cache.root}", soft_wrap=True)


def _open(root: Path | None, clock: Clock) -> CompileCache:
    chosen = default_cache_root(os.environ) if root is None else root
    # nothing is put here, so there is no limit to keep
    return CompileCache(programs_folder(chosen), LocalFileSystem(), clock, max_bytes=0)


def _table(entries: Sequence[Entry], clock: Clock) -> Table:
    table = Table("program", "key", "size", "compiled", "last used", box=None, pad_edge=False)
    table.columns[2].justify = "right"
    now = clock.now()
    for entry in entries:
        table.add_row(
            entry.program,
            entry.digest[:_DIGITS],
            _size(entry.payload_bytes + entry.record_bytes),
            _age(now - entry.created),
            _age(now - entry.last_used),
        )
    return table


def _print_json(cache: CompileCache, **content: Any) -> None:
    document = {"format": "twintrack.cache/1", "root": str(cache.root), **content}
    click.echo(json.dumps(document, indent=1, ensure_ascii=False))


def _entry_json(entry: Entry) -> dict[str, Any]:
    return {
        "program": entry.program,
        "key": entry.digest,
        "parts": dict(entry.parts),
        "meta": dict(entry.meta),
        "payload_sha256": entry.payload_sha256,
        "payload_bytes": entry.payload_bytes,
        "record_bytes": entry.record_bytes,
        "created": entry.created,
        "last_used": entry.last_used,
    }


def _problem_json(problem: Problem) -> dict[str, Any]:
    return {
        "kind": problem.kind,
        "path": str(problem.path),
        "found": problem.found,
        "bytes": problem.bytes,
    }


def _size(count: int) -> str:
    """Decimal units: ``1.2 MB``."""
    for factor, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} B"


def _age(seconds: float) -> str:
    """In the largest unit of which at least two have passed: ``3 days ago``."""
    for length, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * length:
            return f"{int(seconds // length)} {unit} ago"
    return "just now" if seconds < 2 else f"{int(seconds)} seconds ago"
