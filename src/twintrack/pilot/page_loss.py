"""Losses of the tracks, by step and by slice, and their answers."""

from __future__ import annotations

from twintrack.pilot.page_overview import NONE
from twintrack.pilot.summary_parts import Curve, EvaluationSummary
from twintrack.pilot.summary_records import Comparison, Summary, TrackSummary
from twintrack.quantity import Provenance
from twintrack.report.records import (
    BarChart,
    BarSeries,
    Block,
    Callout,
    Cell,
    Column,
    Limit,
    LineChart,
    Section,
    Series,
    SideBySide,
    Status,
    Table,
    TextRow,
)

__all__ = ["answers", "curves", "losses", "slices"]


def losses(summary: Summary) -> Section:
    """Loss curves on one plot, and how far they are apart."""
    series: list[Series] = []
    for slot, track in enumerate(summary.tracks):
        if track.reference is not None:
            run = track.reference
            series += curves(run.track, run.loss, run.evaluations, slot)
    blocks: list[Block] = [
        LineChart("Loss by step, uninterrupted runs", "step", "mean loss per token", tuple(series))
    ]
    if summary.comparisons:
        blocks += [_difference(summary.comparisons), _comparisons(summary.comparisons)]
    return Section(
        "Loss", tuple(blocks), "The same job, data and seed on every track; only the track differs."
    )


def curves(
    name: str, loss: Curve, evaluations: tuple[EvaluationSummary, ...], slot: int
) -> tuple[Series, ...]:
    """Training loss of a run as a line, and its evaluations as points of the same colour."""
    line = Series(f"{name}, training", loss.steps, loss.values, loss.kind, loss.source, slot)
    if not evaluations:
        return (line,)
    steps = tuple(one.step for one in evaluations)
    values = tuple(one.loss.require() for one in evaluations)
    source = evaluations[0].loss.source
    return line, Series(f"{name}, evaluation", steps, values, Provenance.MEASURED, source, slot, line=False)


def _difference(comparisons: tuple[Comparison, ...]) -> LineChart:
    series = tuple(
        Series(
            f"{one.first} and {one.second}",
            one.difference.steps,
            one.difference.values,
            one.difference.kind,
            one.difference.source,
            slot + 2,
        )
        for slot, one in enumerate(comparisons)
    )
    limit = Limit("tolerance of the job", comparisons[0].tolerance)
    return LineChart(
        "Relative difference of the training losses",
        "step",
        "|a − b| / max(|a|, |b|)",
        series,
        (limit,),
        log_y=True,
    )


def _comparisons(comparisons: tuple[Comparison, ...]) -> Table:
    columns = (
        Column("tracks"),
        Column("largest difference", numeric=True),
        Column("at step", numeric=True),
        Column("tolerance", numeric=True),
        Column("within"),
        Column("last evaluation differs by", numeric=True),
        Column("same samples in every step"),
    )
    rows = tuple(
        (
            f"{one.first} and {one.second}",
            one.largest,
            NONE if one.at_step is None else str(one.at_step),
            one.tolerance,
            _yes(one.within),
            one.evaluation_difference,
            _yes(one.samples.identical),
        )
        for one in comparisons
    )
    return Table("Agreement of the tracks", columns, rows)


def _yes(answer: bool | None) -> Status:
    if answer is None:
        return Status("not known", "warn")
    return Status("yes", "good") if answer else Status("no", "bad")


def slices(summary: Summary) -> Section:
    """Evaluation loss by slice, the worst first."""
    tracks = [
        (i, t.reference) for i, t in enumerate(summary.tracks) if t.reference and t.reference.evaluations
    ]
    tracks = [(slot, run) for slot, run in tracks if run.evaluations[-1].slices]
    if not tracks:
        return Section("Slices", (Callout("warn", "No evaluation by slices is on record"),))
    last = [{one.name: one for one in run.evaluations[-1].slices} for _, run in tracks]
    names = sorted(
        {name for one in last for name in one},
        key=lambda name: (-max(one[name].loss.require() for one in last if name in one), name),
    )
    series = tuple(
        BarSeries(run.track, tuple(one[name].loss if name in one else None for name in names), slot)
        for (slot, run), one in zip(tracks, last, strict=True)
    )
    chart = BarChart("Loss by slice, last evaluation", "mean loss per token", tuple(names), series)
    first = [{one.name: one for one in run.evaluations[0].slices} for _, run in tracks]
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        row: list[Cell] = [name, next(one[name].tokens for one in last if name in one)]
        for before, after in zip(first, last, strict=True):
            row += [
                before[name].loss if name in before else NONE,
                after[name].loss if name in after else NONE,
            ]
        rows.append(tuple(row))
    columns = [Column("slice"), Column("tokens", numeric=True)]
    for _, run in tracks:
        steps = run.evaluations[0].step, run.evaluations[-1].step
        columns += [Column(f"{run.track}, after step {step}", numeric=True) for step in steps]
    table = Table("Slices, the worst first", tuple(columns), tuple(rows))
    return Section("Slices", (chart, table), "A mean can hide a group that got worse: these are its parts.")


def answers(summary: Summary) -> Section:
    """Greedy answers to the job's prompts, side by side."""
    columns = [
        (track, step)
        for track in summary.tracks
        if track.reference is not None
        for step in sorted({one.step for one in track.reference.answers})
    ]
    if not columns:
        reason = (
            "The job asks no prompt." if not summary.job.evaluation.prompts else "No answer is on record."
        )
        return Section("Answers", (Callout("plain", reason),))
    prompts = dict.fromkeys(
        one.prompt for track in summary.tracks if track.reference for one in track.reference.answers
    )
    rows = tuple(
        TextRow(prompt, tuple(_answer(track, step, prompt) for track, step in columns)) for prompt in prompts
    )
    heads = tuple(f"{track.track}, after step {step}" for track, step in columns)
    return Section("Answers", (SideBySide("Greedy answers to the job's prompts", heads, rows),))


def _answer(track: TrackSummary, step: int, prompt: str) -> str | None:
    run = track.reference
    found = [one.text for one in run.answers if (one.step, one.prompt) == (step, prompt)] if run else []
    return found[-1] if found else None
