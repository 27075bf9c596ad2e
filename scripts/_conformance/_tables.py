"""What was measured, as a table for the terminal, for the documentation, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
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


def markdown(judgements: Sequence[Judgement], versions: Mapping[str, str], before: str = "") -> str:
    """The tables of the documentation: suites with their versions, then every excuse with its number of tests.

    Args:
        judgements: of the suites that were run.
        versions: of all suites there are, in the order of the tables.
        before: the tables as they were; rows of suites that were not run now, at the same version, are kept.
    """
    suites, excuses = _rows_before(before, set(versions) - {j.suite for j in judgements}, versions)
    for judgement in judgements:
        suite, *rest = _row(judgement)
        suites[suite] = f"| {' | '.join([suite, versions[suite], *rest])} |"
        counts = Counter((e.test, e.kind, e.reason) for _, e in judgement.excused)
        excuses[suite] = [
            f"| {suite} | `{test}` | {count} | {kind} | {reason} |"
            for (test, kind, reason), count in counts.items()
        ]
    lines = ["| suite | version | passed | failed | excused | for |", "|---|---|---|---|---|---|"]
    lines += [suites[suite] for suite in versions if suite in suites]
    if told := [line for suite in versions for line in excuses.get(suite, [])]:
        lines += ["", "| suite | excused | tests | kind | reason |", "|---|---|---|---|---|", *told]
    return "\n".join(lines) + "\n"


def _rows_before(
    text: str, kept: Set[str], versions: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """The rows of some suites in tables that ``markdown`` made, where the version is still the one that counts."""
    suites: dict[str, str] = {}
    excuses: dict[str, list[str]] = {}
    for line in text.splitlines():
        suite, second, *_ = [*line.removeprefix("| ").split(" | "), "", ""]
        if suite not in kept:
            continue
        if second == versions[suite]:
            suites[suite] = line
        elif suite in suites:
            excuses.setdefault(suite, []).append(line)
    return suites, excuses


def as_json(judgements: Sequence[Judgement], versions: Mapping[str, str]) -> dict[str, object]:
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


def write_into(page: Path, judgements: Sequence[Judgement], versions: Mapping[str, str]) -> None:
    """Bring the tables between the two marks of a page up to date with the suites that were run.

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
    old, tail = rest.split(END)
    text = markdown(judgements, versions, old)
    page.write_text(f"{head}{BEGIN}\n\n{text}\n{END}{tail}", encoding="utf-8")
