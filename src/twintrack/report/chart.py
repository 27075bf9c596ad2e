"""Charts as Plotly figures in plain JSON, without colours: the page's script adds those of its theme.

A trace's ``meta`` says which place of the palette it takes (``slot``), or which role (``style``). Every text
that could come from outside is escaped here as well, because Plotly reads a little HTML in names and labels.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from twintrack.quantity import Quantity
from twintrack.report.format import quantity_text
from twintrack.report.records import (
    BarChart,
    BarSeries,
    Chart,
    LineChart,
    Series,
    StackedBars,
    Timeline,
    Waterfall,
)

__all__ = ["chart_figure"]

_DASHES = ("solid", "dash", "dot", "dashdot")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x")
_MARKS = {"checkpoint": "diamond", "resume": "triangle-right", "stop": "x", "lost": "x-open"}
_OFFSETS = {"checkpoint": 0.0, "resume": -0.36, "stop": -0.36, "lost": 0.36}
_LONGEST_LABEL = 34
_MOST_MARKERS = 120  # more of them on one line hide it
Figure = dict[str, Any]


def _plain(text: str) -> str:
    """Text that Plotly shows as it stands."""
    return html.escape(text, quote=False)


def _label(text: str) -> str:
    return _plain(text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "…")


def chart_figure(chart: Chart) -> Figure:
    """``{"data": [...], "layout": {...}}`` for Plotly; sizes in pixels, the width is the page's."""
    match chart:
        case LineChart():
            return _lines(chart)
        case BarChart():
            return _bars(chart.bars, chart.series, chart.unit, stacked=False)
        case StackedBars():
            figure = _bars(chart.bars, chart.parts, chart.unit, stacked=True)
            if chart.totals:
                figure["data"].append(_totals(chart))
                figure["layout"]["margin"] = {"r": 72}
            return figure
        case Timeline():
            return _timeline(chart)
        case Waterfall():
            return _waterfall(chart)


def _drawable(series: Series, log: bool) -> list[float | None]:
    return [None if y is None or (log and y <= 0) else y for y in series.y]


def _marker(series: Series) -> Figure:
    """Points that stand alone are open and differ in size, so that equal values of two series are both seen."""
    symbol = _SYMBOLS[series.slot % len(_SYMBOLS)]
    if series.line:
        return {"symbol": symbol, "size": 6}
    return {"symbol": f"{symbol}-open", "size": 14 - 4 * (series.slot % 2), "line": {"width": 2.5}}


def _mode(series: Series) -> str:
    if not series.line:
        return "markers"
    return "lines+markers" if len(series.x) <= _MOST_MARKERS else "lines"


def _lines(chart: LineChart) -> Figure:
    data: list[Figure] = []
    for series in chart.series:
        trace: Figure = {
            "type": "scatter",
            "mode": _mode(series),
            "name": _plain(series.name),
            "x": list(series.x),
            "y": _drawable(series, chart.log_y),
            "meta": {"slot": series.slot},
            "line": {"dash": _DASHES[series.slot % len(_DASHES)], "width": 2},
            "marker": _marker(series),
            "hovertemplate": "%{fullData.name}<br>%{x}: %{y:.6g}<extra></extra>",
            "showlegend": True,
        }
        data.append(trace)
    xs = [x for series in chart.series for x in series.x]
    for limit in chart.limits:
        value = limit.value.require()
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": _plain(limit.name),
                "x": [min(xs, default=0), max(xs, default=1)],
                "y": [value, value],
                "meta": {"style": "limit"},
                "line": {"dash": "dash", "width": 1.5},
                "hovertemplate": "%{fullData.name}: %{y}<extra></extra>",
                "showlegend": True,
            }
        )
    layout: Figure = {
        "height": 340,
        "xaxis": {"title": {"text": _plain(chart.x_label)}, "type": "log" if chart.log_x else "linear"},
        "yaxis": {"title": {"text": _plain(chart.y_label)}, "type": "log" if chart.log_y else "linear"},
        "hovermode": "closest",
    }
    for axis, log in (("xaxis", chart.log_x), ("yaxis", chart.log_y)):
        if log:
            layout[axis] |= {"tickformat": "~g", "dtick": 1}
    return {"data": data, "layout": layout}


def _bars(bars: Sequence[str], series: Sequence[BarSeries], unit: str, *, stacked: bool) -> Figure:
    places = list(range(len(bars)))
    data = []
    for one in series:
        shown = [None if value is None or not value.known else value.value for value in one.values]
        texts = ["" if value is None else _plain(quantity_text(value)) for value in one.values]
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": _plain(one.name),
                "x": shown,
                "y": places,
                "text": texts,
                "textposition": "inside" if stacked else "auto",
                "textangle": 0,
                "insidetextanchor": "middle",
                "constraintext": "inside" if stacked else "none",
                "cliponaxis": False,
                "customdata": [_plain(bar) for bar in bars],
                "meta": {"slot": one.slot, "gap": stacked},
                "hovertemplate": "%{customdata}<br>%{fullData.name}: %{text}<extra></extra>",
                "showlegend": len(series) > 1,
            }
        )
    rows = len(bars) * (1 if stacked else max(1, len(series)))
    layout = {
        "barmode": "stack" if stacked else "group",
        "bargap": 0.32,
        "height": 110 + rows * (44 if stacked else 24) + (0 if stacked else 8 * len(bars)),
        "xaxis": {
            "title": {"text": _plain(unit)},
            "rangemode": "tozero",
            "tickformat": "~s" if unit in ("FLOP", "byte") else "",
        },
        "yaxis": _places(bars),
        "uniformtext": {"mode": "hide", "minsize": 10} if stacked else {},
        "hovermode": "closest",
        "legend": {"traceorder": "normal"},
    }
    return {"data": data, "layout": layout}


def _totals(chart: StackedBars) -> Figure:
    """Totals behind the bars; they stand where the drawn parts end."""
    ends = [
        sum(value.value or 0 for part in chart.parts if (value := part.values[place]) is not None)
        for place in range(len(chart.bars))
    ]
    return {
        "type": "scatter",
        "mode": "text",
        "x": ends,
        "y": list(range(len(chart.bars))),
        "text": [f"  {_plain(quantity_text(total))}" for total in chart.totals],
        "textposition": "middle right",
        "meta": {"style": "text"},
        "hoverinfo": "skip",
        "showlegend": False,
        "cliponaxis": False,
    }


def _places(names: Sequence[str]) -> Figure:
    """An axis of rows by position, so that two long names which look alike stay two rows."""
    return {
        "tickmode": "array",
        "tickvals": list(range(len(names))),
        "ticktext": [_label(name) for name in names],
        "range": [len(names) - 0.5, -0.5],
        "showgrid": False,
        "zeroline": False,
    }


def _timeline(chart: Timeline) -> Figure:
    data = []
    for style, name in chart.names:
        spans = [(row, s) for row, lane in enumerate(chart.lanes) for s in lane.spans if s.style == style]
        marks = [(row, m) for row, lane in enumerate(chart.lanes) for m in lane.marks if m.style == style]
        shared = {"name": _plain(name), "meta": {"style": style}, "showlegend": True}
        if spans:
            thin = style == "save"
            data.append(
                shared
                | {
                    "type": "bar",
                    "orientation": "h",
                    "base": [s.start for _, s in spans],
                    "x": [s.end - s.start for _, s in spans],
                    "y": [row + (0.36 if thin else 0.0) for row, _ in spans],
                    "width": 0.12 if thin else 0.5,
                    "customdata": [_plain(s.label) for _, s in spans],
                    "hovertemplate": "%{customdata}<extra></extra>",
                }
            )
        if marks:
            data.append(
                shared
                | {
                    "type": "scatter",
                    "mode": "markers",
                    "x": [m.at for _, m in marks],
                    "y": [row + _OFFSETS[m.style] for row, m in marks],
                    "marker": {"symbol": _MARKS.get(style, "circle"), "size": 11},
                    "customdata": [_plain(m.label) for _, m in marks],
                    "hovertemplate": "%{customdata}<extra></extra>",
                    "cliponaxis": False,
                }
            )
    layout = {
        "barmode": "overlay",
        "height": 110 + 52 * len(chart.lanes),
        "xaxis": {"title": {"text": _plain(chart.x_label)}},
        "yaxis": _places([lane.name for lane in chart.lanes]),
        "hovermode": "closest",
    }
    return {"data": data, "layout": layout}


def _waterfall(chart: Waterfall) -> Figure:
    """Floating bars with error bars; the total stands last, from zero."""
    values = (*chart.values, chart.total)
    names = (*chart.steps, chart.total_name)
    bases, reached = [], 0.0
    for value in chart.values:
        bases.append(reached)
        reached += float(value.value or 0.0)
    bar: Figure = {
        "type": "bar",
        "orientation": "h",
        "name": _plain(chart.title),
        "base": [*bases, 0.0],
        "x": [value.value for value in values],
        "y": list(range(len(values))),
        "text": [_plain(quantity_text(value)) for value in values],
        "textposition": "outside",
        "cliponaxis": False,
        "customdata": [_plain(name) for name in names],
        "meta": {"slot": chart.slot, "gap": False},
        "hovertemplate": "%{customdata}: %{text}<extra></extra>",
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [_reach(value)[1] for value in values],
            "arrayminus": [_reach(value)[0] for value in values],
            "thickness": 1.5,
            "width": 4,
        },
        "showlegend": False,
    }
    layout = {
        "height": 110 + 30 * len(values),
        "bargap": 0.35,
        "margin": {"r": 150},
        "xaxis": {"title": {"text": _plain(chart.unit)}, "rangemode": "tozero"},
        "yaxis": _places(names),
        "hovermode": "closest",
    }
    return {"data": [bar], "layout": layout}


def _reach(value: Quantity) -> tuple[float, float]:
    """How far the error reaches below and above."""
    if value.value is None or value.error is None:
        return 0.0, 0.0
    low, high = value.interval
    return float(value.value) - low, high - float(value.value)
