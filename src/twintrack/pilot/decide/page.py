"""A verdict as blocks of a report and on a terminal: the sentence first, then what it rests on."""

from __future__ import annotations

from twintrack.pilot.decide.matrix import PASS_SCORE, score_range
from twintrack.pilot.decide.records import Basis, Criterion, Figure, Flip, Outcome, Reason, Verdict
from twintrack.report.format import quantity_text
from twintrack.report.records import Callout, Cell, Column, Section, Status, Table, Tone

__all__ = [
    "figures_text",
    "flip_table",
    "matrix_table",
    "reason_table",
    "sections",
    "verdict_callout",
]

_TONES: dict[Outcome, Tone] = {Outcome.ACCEPTED: "good", Outcome.REFUSED: "bad", Outcome.UNDECIDED: "warn"}
_BASIS_TONES: dict[Basis, Tone] = {"measured": "good", "answered": "plain", "unknown": "warn"}
_MOST_CHANGES = 6


def verdict_callout(verdict: Verdict) -> Callout:
    """The verdict in one sentence, and what would change it."""
    shown = verdict.would_change[:_MOST_CHANGES] if verdict.outcome is not Outcome.ACCEPTED else ()
    left = len(verdict.would_change) - len(shown) if shown else 0
    items = (*shown, *((f"and {left} more, in the table of rules",) if left else ()))
    lead = "What stands between this verdict and another:" if items else ""
    return Callout(_TONES[verdict.outcome], verdict.sentence, lead, items)


def sections(verdict: Verdict) -> tuple[Section, ...]:
    """Rules, matrix, sensitivity and the support status of the software, each a section."""
    lead = (
        f"On {verdict.on}, from {', '.join(verdict.runs) or 'no run'}. Refused if a rule is broken, undecided if one "
        "is not known, accepted if all hold."
    )
    found = [
        Section("Verdict: the rules and what they were judged by", (reason_table(verdict.reasons),), lead),
        Section("Matrix", (matrix_table(verdict.criteria),)),
        Section("Sensitivity: which input, moved by how much, changes the verdict", (flip_table(verdict),)),
    ]
    if verdict.software:
        found.append(Section("Support status of the software", (software_table(verdict),)))
    return tuple(found)


def _holds(answer: bool | None, words: tuple[str, str, str] = ("holds", "broken", "not known")) -> Status:
    if answer is None:
        return Status(words[2], "warn")
    return Status(words[0], "good") if answer else Status(words[1], "bad")


def _figures(figures: tuple[Figure, ...]) -> Cell:
    """One figure as it is, so that it keeps its mark; several in words."""
    if len(figures) == 1:
        return figures[0].value
    return figures_text(figures) or "–"


def figures_text(figures: tuple[Figure, ...]) -> str:
    """Several figures in words, each with its kind."""
    words = (
        (one.name, quantity_text(one.value), f" ({one.value.kind})" if one.value.known else "")
        for one in figures
    )
    return "; ".join(f"{name}: {text}{kind}" for name, text, kind in words)


def reason_table(reasons: tuple[Reason, ...]) -> Table:
    """Every rule, whether it holds, and why."""
    rows = tuple(
        (reason.rule, _holds(reason.holds), reason.text, _figures(reason.figures)) for reason in reasons
    )
    columns = (Column("rule"), Column(""), Column("why"), Column("figures"))
    return Table("Rules of the verdict", columns, rows)


def matrix_table(criteria: tuple[Criterion, ...]) -> Table:
    """The five criteria with score, basis and reason, and the sum."""
    rows: list[tuple[Cell, ...]] = [
        (row.name, "–" if row.score is None else str(row.score), _basis(row), row.text, _figures(row.figures))
        for row in criteria
    ]
    low, high = score_range(criteria)
    total = f"{low}" if low == high else f"{low} to {high}"
    tone: Tone = "good" if low >= PASS_SCORE else "bad" if high < PASS_SCORE else "warn"
    rows.append(("sum, of 25", total, Status(f"{PASS_SCORE} needed", tone), "", "–"))
    columns = (
        Column("criterion"),
        Column("score", numeric=True, note="1 speaks for staying on GPU, 5 for Trainium"),
        Column("from"),
        Column("why"),
        Column("figures", numeric=True),
    )
    return Table("Five criteria, 1 (stay on GPU) to 5 (Trainium)", columns, tuple(rows))


def _basis(row: Criterion) -> Status:
    return Status(row.basis, _BASIS_TONES[row.basis])


def flip_table(verdict: Verdict) -> Table:
    """One input at a time: its value, the value at which the verdict changes, what it becomes then."""
    rows = tuple(
        (flip.name, flip.now, flip.at, _becomes(flip, verdict), flip.text) for flip in verdict.sensitivity
    )
    columns = (
        Column("input"),
        Column("now", numeric=True),
        Column("changes at", numeric=True),
        Column("verdict then"),
        Column("what happens"),
    )
    note = "One input moves, all others stay; the nearest comes first. The verdict may stay while other rules are open."
    return Table("Sensitivity", columns, rows, note if rows else "No input with a number decides yet.")


def _becomes(flip: Flip, verdict: Verdict) -> str:
    if flip.becomes is None or not flip.at.known:
        return "–"
    return (
        flip.becomes.value
        if flip.becomes is not verdict.outcome
        else f"stays {flip.becomes.value}, for other rules"
    )


def software_table(verdict: Verdict) -> Table:
    """Dated facts on the software that each side needs."""
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            fact.side,
            fact.what,
            fact.status,
            fact.since or "–",
            fact.until or "–",
            f"{fact.source} ({fact.date})",
        )
        for fact in verdict.software
    )
    names = ("side", "what", "status", "since", "until", "source (date)")
    return Table("As published; check before signing", tuple(Column(name) for name in names), rows)
