"""What ran under a track's number rules, what its programs ask of the machine, and where their FLOPs are."""

from __future__ import annotations

from twintrack.pilot.summary_parts import CoverageSummary, ProgramSummary
from twintrack.pilot.summary_records import RunSummary, Summary
from twintrack.report.format import quantity_text
from twintrack.report.records import (
    BarSeries,
    Block,
    Callout,
    Cell,
    Column,
    Section,
    StackedBars,
    Table,
)

__all__ = ["number_rules"]

_MOST_BARS = 8
_LEAST_BAR = 1 / 500  # of the longest; a shorter one cannot be seen


def number_rules(summary: Summary) -> list[Section]:
    """A section per track that tells of its programs."""
    runs = [track.reference for track in summary.tracks if track.reference is not None]
    return [_section(run) for run in runs if run.coverage is not None or run.programs]


def _section(run: RunSummary) -> Section:
    blocks: list[Block] = [_share(run.coverage)]
    if run.coverage is not None:
        blocks.append(_coverage(run.coverage))
        if run.coverage.host_operators:
            rows: tuple[tuple[Cell, ...], ...] = run.coverage.host_operators
            columns = (Column("operator and model line"), Column("executed", numeric=True))
            blocks.append(Table("Operators that ran on the host", columns, rows))
    if run.programs:
        blocks += [_programs(run.programs), _flops(run.programs), _operators(run.programs)]
    return Section(f"{run.track}: number rules, programs and FLOPs", tuple(blocks))


def _share(coverage: CoverageSummary | None) -> Callout:
    if coverage is None:
        return Callout("warn", "No event tells what share of the work ran under the track's number rules")
    title = (
        f"{quantity_text(coverage.flops_share)} of the FLOPs and {quantity_text(coverage.operators_share)} "
        "of the operators ran under the track's number rules"
    )
    if coverage.complete:
        return Callout("good", title, "Nothing ran on the host.")
    return Callout("warn", title, "The rest ran on the host, under the host's own rules.")


def _coverage(coverage: CoverageSummary) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (one.program, one.flops_share, one.operators_share) for one in coverage.programs
    ]
    rows.append(("all, one execution of each", coverage.flops_share, coverage.operators_share))
    columns = (
        Column("program"),
        Column("FLOPs under the rules", numeric=True),
        Column("operators", numeric=True),
    )
    return Table("Share of the work under the track's number rules", columns, tuple(rows))


def _programs(programs: tuple[ProgramSummary, ...]) -> Table:
    rows = tuple(
        (
            one.program,
            one.flops,
            one.matmul_flops,
            one.operator_bytes,
            one.boundary_bytes,
            one.bound,
            one.unfused,
        )
        for one in programs
    )
    columns = (
        Column("program"),
        Column("FLOPs", numeric=True),
        Column("of these in matrix products", numeric=True),
        Column("bytes of all operators", numeric=True),
        Column("bytes in and out", numeric=True),
        Column("program bound", numeric=True, note="a limit, never a prediction"),
        Column("unfused estimate", numeric=True, note="never a prediction"),
    )
    conditions = "; ".join(dict.fromkeys(one.bound.conditions for one in programs))
    note = (
        "Program bound: the larger of all FLOPs over peak, and the bytes of the program's own inputs and outputs "
        "over memory bandwidth. Unfused estimate: that maximum per operator, with the operator's own bytes, added "
        f"up. Neither is a prediction. Conditions: {conditions}."
    )
    return Table("What one execution of each program asks of the machine", columns, rows, note)


def _totals(programs: tuple[ProgramSummary, ...]) -> tuple[list[str], bool]:
    """Operators with most FLOPs over one execution of every program, and whether others with FLOPs are left."""
    totals: dict[str, float] = {}
    for program in programs:
        for one in program.operators:
            totals[one.operator] = totals.get(one.operator, 0) + (one.flops.value or 0)
    names = sorted((name for name in totals if totals[name]), key=lambda name: (-totals[name], name))
    seen = [name for name in names[:_MOST_BARS] if totals[name] >= totals[names[0]] * _LEAST_BAR]
    return seen, len(seen) < len(names)


def _flops(programs: tuple[ProgramSummary, ...]) -> StackedBars:
    names, left_out = _totals(programs)
    parts = []
    for slot, program in enumerate(programs):
        known = {one.operator: one.flops for one in program.operators if one.flops.value}
        parts.append(BarSeries(program.program, tuple(known.get(name) for name in names), slot))
    note = "One execution of each program."
    if left_out:
        note += " Operators with fewer FLOPs stand in the table only."
    return StackedBars("Where the FLOPs are", "FLOP", tuple(names), tuple(parts), note=note)


def _operators(programs: tuple[ProgramSummary, ...]) -> Table:
    rows = tuple(
        (program.program, one.operator, one.flops, one.count)
        for program in programs
        for one in program.operators
    )
    columns = (
        Column("program"),
        Column("operator"),
        Column("FLOPs", numeric=True),
        Column("executed", numeric=True),
    )
    return Table("every operator of every program", columns, rows, folded=True)
