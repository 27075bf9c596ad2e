"""The tables of a comparison, for the page and for the terminal."""

from __future__ import annotations

from twintrack.pilot.compare.records import FigureRow, RunComparison, RunSide, SliceComparison, StartPair
from twintrack.pilot.page_overview import NONE, bit_status
from twintrack.report.records import Callout, Cell, Column, Status, Table

__all__ = [
    "STATES",
    "figure_table",
    "heading",
    "loss_table",
    "outcome",
    "reason_table",
    "resume_table",
    "slice_table",
    "start_table",
    "unlike_reasons",
]

STATES = {"cold": "cold", "warm": "warm", "as it was": "first start of these runs"}
"""What the states of a start are called."""
_DURING = {
    "warmup": "before the end of the first step",
    "first_use": "first use, later",
    "later": "a recompile",
}


def heading(side: RunSide) -> str:
    """Label of a run at the head of a column, with the word that it is an emulation where it is."""
    return f"{side.label} (emulated)" if side.emulated else side.label


def outcome(comparison: RunComparison) -> Callout:
    """Whether quality holds, and why."""
    a, b, items = comparison.first.label, comparison.second.label, comparison.quality_reasons
    match comparison.quality:
        case True:
            return Callout("good", f"{b} is as good as {a}", items=items)
        case False:
            return Callout("bad", f"The quality of {b} against {a} does not hold", items=items)
        case None:
            return Callout("warn", f"Whether {b} is as good as {a} is not shown", items=items)


def loss_table(comparison: RunComparison) -> Table:
    """Both rules on the losses and their figures."""
    test, losses = comparison.test, comparison.losses
    verdict = {
        "equivalent": Status("equivalent", "good"),
        "different": Status("different", "bad"),
        "not shown": Status("not shown", "warn"),
    }[test.verdict]
    rows: tuple[tuple[Cell, ...], ...] = (
        ("mean difference over the last half", verdict),
        ("mean relative difference over the last half", test.mean),
        ("its 95 % interval, low end", test.low),
        ("its 95 % interval, high end", test.high),
        ("steps compared in the last half", test.pairs),
        ("every step within the tolerance", bit_status(losses.within)),
        (f"largest relative difference (step {losses.at_step})", losses.largest),
        ("tolerance", comparison.tolerance),
    )
    columns = (Column("rule or figure"), Column("found", numeric=True))
    return Table("Losses by two rules", columns, rows, note=f"{test.reason[:1].upper()}{test.reason[1:]}.")


def slice_table(comparison: RunComparison, slices: SliceComparison) -> Table:
    """The last evaluation by slice, the worst first."""
    rows = tuple(
        (row.name, row.tokens if row is not slices.mean else NONE, row.first, row.second, row.difference)
        for row in (*slices.rows, slices.mean)
    )
    columns = (
        Column("slice"),
        Column("tokens", numeric=True),
        Column(comparison.first.label, numeric=True),
        Column(comparison.second.label, numeric=True),
        Column(
            "difference",
            numeric=True,
            note="(b − a) / a: above 0 the second run is worse, by that share of the first one's loss",
        ),
    )
    title = f"Evaluation loss after step {slices.step}, the worst slice first"
    return Table(title, columns, rows, note="A difference above 0: the second run is worse.")


def start_table(comparison: RunComparison, *, notes: bool = True) -> Table:
    """Time before the first step, cold, warm, and as each run's own first start was.

    Args:
        comparison: of two runs.
        notes: with a column that says why a ratio is unknown.
    """
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            STATES[pair.state],
            _total(pair, 0),
            _total(pair, 1),
            pair.ratio,
            *([pair.note or NONE] if notes else []),
        )
        for pair in comparison.starts
    )
    columns = (
        Column("start"),
        Column(heading(comparison.first), numeric=True),
        Column(heading(comparison.second), numeric=True),
        Column("second over first", numeric=True),
        *([Column("note")] if notes else []),
    )
    return Table("Time before the first step", columns, rows)


def _total(pair: StartPair, index: int) -> Cell:
    start = (pair.first, pair.second)[index]
    return NONE if start is None else start.total


def figure_table(
    title: str, rows: tuple[FigureRow, ...], comparison: RunComparison, *, of_machines: bool = True
) -> Table:
    """Figures of both runs and the ratio where there is one.

    Args:
        title: of the table.
        rows: of one kind.
        comparison: that they belong to.
        of_machines: whether an emulation's figures are its own, so that its column says so.
    """
    heads = [heading(one) if of_machines else one.label for one in (comparison.first, comparison.second)]
    cells = tuple((row.name, row.first, row.second, NONE if row.ratio is None else row.ratio) for row in rows)
    columns = (
        Column(""),
        *(Column(head, numeric=True) for head in heads),
        Column("second over first", numeric=True),
    )
    return Table(title, columns, cells)


def resume_table(comparison: RunComparison) -> Table:
    """Whether each track resumed to the bit, and what its newest checkpoint holds of the optimizer."""
    sides = (comparison.first, comparison.second)
    bits = tuple(bit_status(side.to_the_bit) for side in sides)
    rows: tuple[tuple[Cell, ...], ...] = (
        ("the track resumed to the bit", *bits),
        ("why not, or why that is not known", *(side.resume_reason or NONE for side in sides)),
        ("the newest checkpoint holds", *(side.optimizer or "not here" for side in sides)),
    )
    return Table("Resume", (Column(""), *(Column(side.label) for side in sides)), rows)


def reason_table(side: RunSide) -> Table:
    """Compilations of one run by reason; no rows where it tells of none."""
    rows = tuple(
        (_DURING[one.during], "loaded" if one.warm else "captured", one.reason, one.count, one.seconds)
        for one in side.compile_reasons
    )
    columns = (
        Column("when"),
        Column("how"),
        Column("reason"),
        Column("times", numeric=True),
        Column("time spent", numeric=True),
    )
    return Table(f"{side.label}: compilations by reason", columns, rows)


def unlike_reasons(comparison: RunComparison) -> tuple[str, ...]:
    """Why figures that are both known are not put over each other, each reason once."""
    totals = [
        (pair.first.total, pair.second.total, pair.ratio)
        for pair in comparison.starts
        if pair.first is not None and pair.second is not None
    ]
    rows = [(row.first, row.second, row.ratio) for row in (*comparison.figures, *comparison.costs)]
    return tuple(
        dict.fromkeys(
            ratio.source
            for first, second, ratio in (*totals, *rows)
            if ratio is not None and not ratio.known and first.value and second.known
        )
    )
