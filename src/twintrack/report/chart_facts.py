"""What stands beside a chart: kinds and sources of its figures, what it cannot draw, the same as a table."""

from __future__ import annotations

from collections.abc import Iterable

from twintrack.quantity import Provenance, Quantity
from twintrack.report.records import (
    BarChart,
    BarSeries,
    Cell,
    Chart,
    Column,
    LineChart,
    StackedBars,
    Table,
    Timeline,
    Waterfall,
)

__all__ = ["chart_kinds", "chart_notes", "chart_sources", "chart_table"]


def chart_kinds(chart: Chart) -> tuple[Provenance, ...]:
    """Kinds of the figures in a chart, each once, in the order of strength."""
    found: set[Provenance] = set()
    match chart:
        case LineChart():
            found |= {s.kind for s in chart.series} | {limit.value.kind for limit in chart.limits}
        case Timeline():
            found.add(chart.kind)
        case BarChart() | StackedBars() | Waterfall():
            found |= {q.kind for q in _quantities(chart)}
    return tuple(kind for kind in Provenance if kind in found)


def chart_sources(chart: Chart) -> tuple[str, ...]:
    """Sources of the figures in a chart, each once."""
    match chart:
        case LineChart():
            texts = [s.source for s in chart.series] + [limit.value.source for limit in chart.limits]
            return tuple(dict.fromkeys(texts))
        case Timeline():
            return (chart.source,)
        case BarChart() | StackedBars() | Waterfall():
            return tuple(dict.fromkeys(q.source for q in _quantities(chart)))


def _bar_series(chart: BarChart | StackedBars) -> tuple[BarSeries, ...]:
    return chart.series if isinstance(chart, BarChart) else chart.parts


def _quantities(chart: BarChart | StackedBars | Waterfall) -> Iterable[Quantity]:
    if isinstance(chart, Waterfall):
        return (*chart.values, chart.total)
    return (value for one in _bar_series(chart) for value in one.values if value is not None)


def chart_notes(chart: Chart) -> tuple[str, ...]:
    """What the drawing leaves out and a reader must know."""
    notes = []
    if isinstance(chart, LineChart) and chart.log_y:
        for series in chart.series:
            count = sum(y is not None and y <= 0 for y in series.y)
            if count:
                notes.append(
                    f"{series.name}: {count} of {len(series.y)} points are 0, which has no place on this axis"
                )
    if isinstance(chart, BarChart | StackedBars):
        missing = [
            f"{bar} ({one.name})"
            for one in _bar_series(chart)
            for bar, value in zip(chart.bars, one.values, strict=True)
            if value is not None and not value.known
        ]
        if missing:
            notes.append("unknown, so not drawn: " + ", ".join(missing))
    if isinstance(chart, Waterfall):
        names = [name for name, value in zip(chart.steps, chart.values, strict=True) if not value.known]
        if names:
            notes.append("unknown, so without room in the drawing: " + ", ".join(names))
    return tuple(notes)


def chart_table(chart: Chart) -> Table | None:
    """The figures of a chart as a folded table, for readers without a pointer; none for a timeline."""
    match chart:
        case Timeline():
            return None
        case LineChart():
            return _lines_table(chart)
        case Waterfall():
            pairs = (*zip(chart.steps, chart.values, strict=True), (chart.total_name, chart.total))
            heads = (Column(""), Column(chart.unit, numeric=True))
            return Table("the figures of this chart", heads, tuple(pairs), folded=True)
        case BarChart() | StackedBars():
            series = _bar_series(chart)
            columns = (Column(""), *(Column(one.name, numeric=True) for one in series))
            rows = tuple((bar, *(_cell(one.values[i]) for one in series)) for i, bar in enumerate(chart.bars))
            return Table("the figures of this chart", columns, rows, folded=True)


def _lines_table(chart: LineChart) -> Table:
    xs = sorted({x for series in chart.series for x in series.x})
    points = [dict(zip(series.x, series.y, strict=True)) for series in chart.series]
    columns = (Column(chart.x_label, numeric=True), *(Column(s.name, numeric=True) for s in chart.series))
    rows = tuple((_point(x), *(_point(known.get(x)) for known in points)) for x in xs)
    return Table("the figures of this chart", columns, rows, folded=True)


def _cell(value: Quantity | None) -> Cell:
    return "–" if value is None else value


def _point(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{int(value):,}" if float(value).is_integer() else f"{value:.6g}"
