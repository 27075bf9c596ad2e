"""What was measured, as a table for the terminal, for the documentation, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from _conformance._excuses import Judgement
from twintrack.errors import UserError

__all__ = ["as_json", "markdown", "terminal", "write_into"]

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
_COLUMNS = ("suite", "passed", "failed", "excused", "for")


def _row(judgement: Judgement) -> tuple[str, str, str, str, str]:
    kinds = Counter(excuse.kind for _, excuse in judgement.excused)
    why = ", ".join(f"{kind} ({count})" for kind, count in sorted(kinds.items()))
    counts = (len(judgement.passed), len(judgement.failed), len(judgement.excused))
    return (judgement.suite, *map(str, counts), why)  # type: ignore[return-value]


def terminal(judgements: Sequence[Judgement]) -> Table:
    """A line for each suite."""
    table = Table(title="Public suites on the emulator")
    for name in _COLUMNS:
        table.add_column(name, justify="right" if name in ("passed", "failed", "excused") else "left")
    for judgement in judgements:
        table.add_row(*map(escape, _row(judgement)), style="" if judgement.holds else "bold red")
    return table


def markdown(judgements: Sequence[Judgement], versions: dict[str, str]) -> str:
    """The table of the documentation: suites with their versions, then every excuse with its number of tests."""
    lines = ["| suite | version | passed | failed | excused | for |", "|---|---|---|---|---|---|"]
    for judgement in judgements:
        suite, *rest = _row(judgement)
        lines.append(f"| {' | '.join([suite, versions[suite], *rest])} |")
    excused = Counter((o.suite, e.test, e.kind, e.reason) for j in judgements for o, e in j.excused)
    if excused:
        lines += ["", "| suite | excused | tests | kind | reason |", "|---|---|---|---|---|"]
        for (suite, test, kind, reason), count in excused.items():
            lines.append(f"| {suite} | `{test}` | {count} | {kind} | {reason} |")
    return "\n".join(lines) + "\n"


def as_json(judgements: Sequence[Judgement], versions: dict[str, str]) -> dict[str, object]:
    """Everything, test by test."""
    return {
        "holds": all(judgement.holds for judgement in judgements),
        "suites": [
            {
                "suite": judgement.suite,
                "version": versions[judgement.suite],
                "passed": [outcome.test for outcome in judgement.passed],
                "failed": [
                    {"test": o.test, "result": o.result, "reason": o.reason} for o in judgement.failed
                ],
                "excused": [
                    {"test": o.test, "result": o.result, "said": o.reason, "kind": e.kind, "reason": e.reason}
                    for o, e in judgement.excused
                ],
                "idle excuses": [excuse.test for excuse in judgement.unused],
            }
            for judgement in judgements
        ],
    }


def write_into(page: Path, text: str) -> None:
    """Replace what stands between the two marks of a page.

    Raises:
        UserError: the page has not both marks, once each.
    """
    before = page.read_text(encoding="utf-8")
    if before.count(BEGIN) != 1 or before.count(END) != 1:
        raise UserError(
            f"{BEGIN} and {END}, once each",
            found="not so",
            where=page.name,
            remedy="put them around the table",
        )
    head, rest = before.split(BEGIN)
    page.write_text(f"{head}{BEGIN}\n\n{text}\n{END}{rest.split(END)[1]}", encoding="utf-8")
