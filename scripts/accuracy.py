"""Simulate kernels whose times were published: ``python scripts/accuracy.py [--write] [--row NAME]``.

Prints published and simulated figures, their error, which of them a parameter was fitted on, and how far each figure
moves when a fitted parameter does. ``--write`` puts the figures into the package (the error that simulated times carry)
and the tables into ``docs/timing-accuracy.md``. Exit code 0: the gates hold; 1: they do not; 2: the command could not
be carried out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from _accuracy._measuring import Measured, measure
from _accuracy._tables import markdown, sensitivity_table, terminal, write_into
from twintrack.errors import TwintrackError, UserError

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "timing-accuracy.md"
DATA = ROOT / "src" / "twintrack" / "neuroncore" / "timing" / "data" / "accuracy.json"
sys.path.append(str(ROOT / "tests" / "accuracy"))

from accuracy_gates import broken_gates  # noqa: E402 - found by the path above
from accuracy_rows import ROWS, Row  # noqa: E402
from accuracy_runs import digest  # noqa: E402


def main() -> None:
    """Read the options, simulate, print, and end with the exit code."""
    options = _options()
    try:
        sys.exit(_run(options))
    except TwintrackError as error:
        print(f"accuracy: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--row", action="append", help="only this row; may be given more than once")
    parser.add_argument(
        "--write", action="store_true", help="write accuracy.json and the documentation's tables"
    )
    parser.add_argument(
        "--no-sensitivity",
        action="store_true",
        help="do not move the fitted parameters (about half the time)",
    )
    return parser.parse_args()


def _run(options: argparse.Namespace) -> int:
    rows = _chosen(options.row)
    if options.write and (options.row or options.no_sensitivity):
        raise UserError(
            "--write without --row and --no-sensitivity",
            found="both",
            where="options",
            remedy="write the whole table",
        )
    model = digest()
    console = Console(width=None if sys.stdout.isatty() else 140)
    measured = _measured(console, rows, sensitivity=not options.no_sensitivity)
    results = [result for one in measured for result in one.results]
    console.print(terminal(results))
    if not options.no_sensitivity:
        console.print(sensitivity_table(measured))
    broken = broken_gates(results)
    for text in broken:
        console.print(f"gate does not hold: {text}", style="bold red")
    if options.write:
        _write(measured, model)
        console.print(f"wrote {PAGE.relative_to(ROOT)} and {DATA.relative_to(ROOT)}")
    return 1 if broken else 0


def _chosen(names: Sequence[str] | None) -> list[Row]:
    known = {row.name: row for row in ROWS}
    for name in names or ():
        if name not in known:
            raise UserError(
                "a row of the accuracy table", found=name, where="--row", remedy=f"one of {', '.join(known)}"
            )
    return [known[name] for name in names or known]


def _measured(console: Console, rows: Sequence[Row], *, sensitivity: bool) -> list[Measured]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    found = []
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=sum(row.weight for row in rows))
        for row in rows:
            progress.update(task, description=row.name)
            found.append(measure(row, sensitivity=sensitivity))
            progress.advance(task, row.weight)
    return found


def _write(measured: Sequence[Measured], model: str) -> None:
    if digest() != model:
        raise UserError(
            "a model that stays the same while it is measured",
            found="changed files",
            where="twintrack.neuroncore.timing or tests/accuracy",
            remedy="run it again",
        )
    entries = [result.as_entry() for one in measured for result in one.results]
    text = json.dumps({"digest": model, "rows": entries}, indent=1)
    DATA.write_text(text + "\n", encoding="utf-8")
    write_into(PAGE, markdown(measured))


if __name__ == "__main__":
    main()
