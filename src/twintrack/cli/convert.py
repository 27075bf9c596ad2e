"""``twintrack convert``: a checkpoint to another program's layout and back, with proof."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

    from twintrack.pilot.convert.convert import Conversion
    from twintrack.pilot.convert.layouts import Layout
    from twintrack.pilot.convert.plan import Wish

__all__ = ["command"]


@click.command("convert")
@click.argument("source", metavar="RUN@STEP|FOLDER")
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--to", type=click.Choice(["peft", "hf", "twintrack"]), required=True, help="Layout of OUT.")
@click.option(
    "--job",
    type=click.Path(path_type=Path),
    help="Job file that a PEFT or Hugging Face folder belongs to; a run has its own.",
)
@click.option(
    "--dtype",
    type=click.Choice(["fp32", "bf16"]),
    default="fp32",
    show_default=True,
    help="Type of the weights in OUT (peft, hf); optimizer state is float32 always.",
)
@click.option("--track", help="Track on which a run goes on (twintrack); default: the source's own.")
@click.option(
    "--fresh-optimizer", is_flag=True, help="A folder without optimizer state begins at step 0 (twintrack)."
)
@click.option("--tensor", type=click.IntRange(1, 1024), help="Write shards: devices that share each matrix.")
@click.option("--pipeline", type=click.IntRange(1, 1024), help="Write shards: groups of layers.")
@click.option(
    "--rotary",
    type=click.Choice(["half_split", "interleaved"]),
    help="Shards: order of the rows of q and k; default: half_split, as Hugging Face has it.",
)
@click.option(
    "--pad-vocabulary-to",
    "pad_to",
    type=click.IntRange(1, 1 << 20),
    metavar="K",
    help="Shards: pad the vocabulary with zero rows to a multiple of K times the tensor degree.",
)
@click.option(
    "--cache",
    type=click.Path(path_type=Path),
    help="Folder of converted weights; default: TWINTRACK_CACHE, else the user's cache.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the proof as JSON.")
def command(
    source: str,
    out: Path,
    to: str,
    job: Path | None,
    dtype: str,
    track: str | None,
    fresh_optimizer: bool,
    tensor: int | None,
    pipeline: int | None,
    rotary: str | None,
    pad_to: int | None,
    cache: Path | None,
    as_json: bool,
) -> None:
    """Convert a state, and prove in another process that the other side can use it.

    RUN is a run folder, FOLDER:TRACK or FOLDER:TRACK/interrupted; without @STEP its newest whole checkpoint is taken.
    A PEFT folder, a Hugging Face folder (both with --job) or a sharded folder is a source too.

    OUT must be new or empty; proof.json, written last, says what was shown. Exit code 0: every check passed; 1: one
    did not, and OUT is not to be used.
    """
    sharded = {"tensor": tensor, "pipeline": pipeline, "rotary": rotary, "pad_to": pad_to}
    _refuse_unused(to, dtype, track, fresh_optimizer, sharded)
    from twintrack.job.load import load_job

    loaded = None if job is None else load_job(job)
    from rich.console import Console

    from twintrack.pilot.convert.plan import Wish

    wish = Wish(
        source=source,
        to=to,  # type: ignore[arg-type]  # click allows the three words only
        out=out,
        job=None if loaded is None else (loaded.job, loaded.base),
        dtype=dtype,  # type: ignore[arg-type]  # click allows the two words only
        track=track,
        fresh_optimizer=fresh_optimizer,
        layout=_layout({name: value for name, value in sharded.items() if value is not None}),
    )
    conversion = _run(wish, cache, Console(stderr=as_json))
    if as_json:
        click.echo(conversion.proof.model_dump_json(indent=1))
    else:
        _print(conversion, out, Console())
    sys.exit(0 if conversion.proof.passed else 1)


def _refuse_unused(
    to: str, dtype: str, track: str | None, fresh_optimizer: bool, sharded: dict[str, int | str | None]
) -> None:
    """An option that would do nothing is a mistake of the caller's, who believes that it does."""
    given = [f"--{name.replace('pad_to', 'pad-vocabulary-to')}" for name, value in sharded.items() if value]
    if to != "twintrack":
        unused = [
            *given,
            *(["--track"] if track else []),
            *(["--fresh-optimizer"] if fresh_optimizer else []),
        ]
        if unused:
            raise click.UsageError(f"{unused[0]} goes with --to twintrack only")
    elif dtype != "fp32":
        raise click.UsageError("--dtype goes with --to peft or hf only: a run's types are its job's")
    elif given and track:
        raise click.UsageError("shards belong to no track: leave --track away")


def _layout(chosen: dict[str, int | str]) -> Layout | None:
    if not chosen:
        return None
    from twintrack.pilot.convert.layouts import Layout

    return Layout.model_validate(chosen)


def _run(wish: Wish, cache: Path | None, console: Console) -> Conversion:
    from twintrack.cli.progress import open_display
    from twintrack.clock import SystemClock
    from twintrack.compiler.cache import default_cache_root
    from twintrack.pilot.convert.convert import STAGES, World, convert
    from twintrack.storage import LocalFileSystem

    root = cache if cache is not None else default_cache_root(os.environ)
    with open_display(console) as display:
        stage = display.stage(f"convert to {wish.to}", STAGES)
        conversion = convert(wish, World(root, LocalFileSystem(), SystemClock(), stage))
        stage.finish("done")
    return conversion


def _print(conversion: Conversion, out: Path, console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    proof = conversion.proof
    table = Table("check", "", "value", "limit", "found", box=None, pad_edge=False, header_style="bold")
    for check in proof.checks:
        mark = Text("ok", "green") if check.passed else Text("FAILED", "bold red")
        value, limit = ("" if number is None else f"{number:.3g}" for number in (check.value, check.limit))
        table.add_row(check.name, mark, value, f"{limit} {check.unit}".strip(), Text(check.found))
    console.print(table)
    for remark in conversion.remarks:
        console.print(f"note: {remark}", highlight=False, soft_wrap=True, markup=False)
    bad = sum(not check.passed for check in proof.checks)
    verdict = f"proven by {len(proof.checks)} checks" if proof.passed else f"NOT proven: {bad} failed"
    where = f"{proof.source} as {proof.to}: {out}, {verdict}"
    console.print(where, highlight=False, soft_wrap=True, markup=False)
    if conversion.record is not None:
        console.print(f"record: {conversion.record}", highlight=False, soft_wrap=True, markup=False)
