"""A comparison as sections of a report."""

from __future__ import annotations

from twintrack.pilot.compare.figures import WORDS
from twintrack.pilot.compare.records import RunComparison, SliceComparison
from twintrack.pilot.compare.tables import (
    STATES,
    figure_table,
    heading,
    loss_table,
    outcome,
    reason_table,
    resume_table,
    slice_table,
    start_table,
)
from twintrack.pilot.page_loss import curves
from twintrack.pilot.page_overview import NONE
from twintrack.pilot.summary_start import PARTS
from twintrack.report.records import (
    Block,
    Callout,
    Cell,
    Column,
    Limit,
    LineChart,
    Page,
    Section,
    Series,
    SideBySide,
    Table,
    TextRow,
)

__all__ = ["build_page", "quality_sections", "sections"]


def build_page(comparison: RunComparison) -> Page:
    """The comparison as a page of its own."""
    a, b = comparison.first, comparison.second
    return Page(
        title=f"{heading(b)} against {heading(a)}",
        subtitle=f"{b.name} compared with {a.name}",
        head=(outcome(comparison),),
        sections=sections(comparison),
        footer=f"Made by twintrack from the events of both runs; job digests {a.job_digest} and {b.job_digest}.",
    )


def sections(comparison: RunComparison) -> tuple[Section, ...]:
    """Losses, slices, answers, starts, figures, recompiles, cost, and what a reader must know of them."""
    found = [
        _losses(comparison),
        _slices(comparison),
        _answers(comparison),
        Section(
            "Time before the first step, side by side",
            (start_table(comparison), _start_parts(comparison)),
            "A cold start stands beside a cold one and a warm one beside a warm one; nothing else is put over another.",
        ),
        _resume(comparison),
        _recompiles(comparison),
    ]
    if comparison.costs:
        found.append(
            Section(
                "Cost, side by side", (figure_table("", comparison.costs, comparison, of_machines=False),)
            )
        )
    found.append(_conditions(comparison))
    return tuple(found)


def quality_sections(comparison: RunComparison) -> tuple[Section, ...]:
    """What decides on the quality: the test of the losses and the slices; for a report that has the rest already."""
    return _losses(comparison), _slices(comparison)


def _losses(comparison: RunComparison) -> Section:
    a, b, test = comparison.first, comparison.second, comparison.test
    series = [*curves(a.label, a.loss, a.evaluations, 0), *curves(b.label, b.loss, b.evaluations, 1)]
    difference = comparison.losses.difference
    points = Series(
        f"{a.label} and {b.label}", difference.steps, difference.values, difference.kind, difference.source, 2
    )
    blocks: tuple[Block, ...] = (
        LineChart("Loss by step", "step", "mean loss per token", tuple(series)),
        LineChart(
            "Relative difference of the training losses",
            "step",
            "|a − b| / max(|a|, |b|)",
            (points,),
            (Limit("tolerance", comparison.tolerance),),
            log_y=True,
        ),
        loss_table(comparison),
    )
    lead = (
        "Two rules: no step may differ by more than the tolerance; and the mean difference of the last half, from "
        f"step {test.first_step} on, must lie within it with its whole 95 % interval (moving-block bootstrap, "
        f"blocks of {test.block_length} steps, {test.resamples} resamples, seed {test.seed})."
    )
    return Section("Loss, side by side", blocks, lead)


def _slices(comparison: RunComparison) -> Section:
    if comparison.slices is None:
        text = "The runs have no evaluation of the same last step"
        return Section("Slices, side by side", (Callout("warn", text),))
    blocks: list[Block] = [_finding(comparison.slices)] if comparison.slices.findings else []
    return Section("Slices, side by side", (*blocks, slice_table(comparison, comparison.slices)))


def _finding(slices: SliceComparison) -> Callout:
    broken = any(finding.breaks for finding in slices.findings)
    title = "Slices that the mean hides" if not broken else "A slice got worse by more than the tolerance"
    return Callout("bad" if broken else "warn", title, items=tuple(one.text for one in slices.findings))


def _answers(comparison: RunComparison) -> Section:
    if not comparison.answers:
        return Section("Answers, side by side", (Callout("plain", "Neither run has answers on record"),))
    rows = tuple(TextRow(pair.prompt, (pair.first, pair.second)) for pair in comparison.answers)
    same = sum(pair.first == pair.second for pair in comparison.answers)
    note = f"{same} of {len(rows)} answers are the same to the letter."
    heads = (comparison.first.label, comparison.second.label)
    return Section(
        "Answers, side by side", (SideBySide("Greedy answers after the last step", heads, rows, note),)
    )


def _start_parts(comparison: RunComparison) -> Table:
    sides = (comparison.first, comparison.second)
    rows = []
    for pair in comparison.starts:
        for side, start in zip(sides, (pair.first, pair.second), strict=True):
            if start is None:
                continue
            parts: list[Cell] = [NONE if (one := start.part(name)) is None else one for name in PARTS]
            rows.append((f"{side.label}, {STATES[pair.state]}", WORDS[start.programs], *parts))
    heads = (Column("start"), Column("programs"))
    parts_heads = tuple(Column(name.replace("_", " "), numeric=True) for name in PARTS)
    return Table("the parts of each start", (*heads, *parts_heads), tuple(rows), folded=True)


def _resume(comparison: RunComparison) -> Section:
    table = figure_table("Speed, checkpoints, memory", comparison.figures, comparison)
    return Section("Speed, checkpoints and resume, side by side", (table, resume_table(comparison)))


def _recompiles(comparison: RunComparison) -> Section:
    sides = [side for side in (comparison.first, comparison.second) if side.compile_reasons]
    blocks: tuple[Block, ...] = tuple(reason_table(side) for side in sides)
    nothing = Callout("plain", "Neither run tells of programs that it compiled")
    return Section("Compilations by reason, side by side", blocks or (nothing,))


def _conditions(comparison: RunComparison) -> Section:
    sides = (comparison.first, comparison.second)
    known = {True: "the same", None: "not told by both"}
    rows: tuple[tuple[Cell, ...], ...] = (
        ("run", *(side.name for side in sides), ""),
        ("job", *(side.job for side in sides), ""),
        (
            "data digest",
            *(side.data_digest or "not told" for side in sides),
            known[comparison.same_data or None],
        ),
        (
            "weights digest",
            *(side.weights_digest or "not told" for side in sides),
            known[comparison.same_weights or None],
        ),
        ("steps done", *(side.steps_done for side in sides), ""),
    )
    columns = (Column(""), *(Column(side.label) for side in sides), Column("comparison"))
    blocks: list[Block] = [Table("What was compared", columns, rows)]
    if comparison.remarks:
        blocks.append(Callout("plain", "To be known of these figures", items=comparison.remarks))
    for side in sides:
        if side.failures:
            texts = tuple(f"{failure.where}: {failure.what}" for failure in side.failures)
            blocks.append(Callout("bad", f"What had to hold of {side.label} and did not", items=texts))
    return Section("What was compared", tuple(blocks))
