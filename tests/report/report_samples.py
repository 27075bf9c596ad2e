"""A page with one of every component, and the same text wherever a text can stand."""

from __future__ import annotations

from twintrack.quantity import Provenance, Quantity
from twintrack.report.records import (
    BarChart,
    BarSeries,
    Callout,
    Column,
    Lane,
    Limit,
    LineChart,
    Mark,
    Page,
    Section,
    Series,
    SideBySide,
    Span,
    StackedBars,
    Status,
    Table,
    TextRow,
    Timeline,
    Waterfall,
)


def page_of(text: str) -> Page:
    """Every component, with ``text`` in each place that takes one."""
    figure = Quantity.measured(0.0125, "s", text or "x", conditions=text)
    kind = Provenance.MEASURED
    return Page(
        title=text,
        subtitle=text,
        head=(
            Callout("good", text, text, (text,)),
            Table(
                text,
                (Column(text, note=text), Column(text, numeric=True)),
                ((text, figure), (Status(text, "bad"), text)),
            ),
        ),
        sections=(
            Section(
                text,
                (
                    LineChart(
                        text,
                        text,
                        text,
                        (
                            Series(text, (1.0, 2.0), (3.0, None), kind, text),
                            Series("p", (1.0,), (0.5,), kind, "s", 1, line=False),
                        ),
                        (Limit(text, figure),),
                        note=text,
                    ),
                    BarChart(text, text, (text, "b"), (BarSeries(text, (figure, None)),), note=text),
                    Waterfall(
                        text, "USD", (text, text), (figure, figure), figure, total_name=text, note=text
                    ),
                    StackedBars(text, "s", (text,), (BarSeries(text, (figure,)),), (figure,), note=text),
                    Timeline(
                        text,
                        text,
                        (Lane(text, (Span(0.0, 2.0, text, "work"),), (Mark(1.0, text, "stop"),)),),
                        kind,
                        text,
                        (("work", text), ("stop", text)),
                        note=text,
                    ),
                    SideBySide(text, (text, "b"), (TextRow(text, (text, None)),), text),
                    Table(text, (Column(text),), ((text,),), text, folded=True),
                ),
                text,
            ),
        ),
        footer=text,
    )
