"""Records, formats, charts as Plotly JSON, and terminal tables."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_samples import page_of
from rich.console import Console

from twintrack.quantity import Error, Provenance, Quantity
from twintrack.report.chart import chart_figure
from twintrack.report.chart_facts import chart_kinds, chart_notes, chart_sources, chart_table
from twintrack.report.format import BADGES, quantity_text, tooltip
from twintrack.report.records import (
    BarChart,
    BarSeries,
    Column,
    LineChart,
    Series,
    SideBySide,
    StackedBars,
    Status,
    Table,
    TextRow,
    Waterfall,
)
from twintrack.report.terminal import kinds_line, plain_text, terminal_table


def measured(value, unit=""):
    return Quantity.measured(value, unit, "here")


def printed(thing) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(thing)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0125, "s", "12.50 ms"),
        (1.5e-6, "s", "1.500 µs"),
        (4.271e-7, "s", "427.1 ns"),
        (3600.0, "s", "3,600 s"),
        (269_060_552, "byte", "269.1 MB"),
        (512, "byte", "512 B"),
        (0, "byte", "0 B"),
        (66_430_000_000, "FLOP", "66.43 GFLOP"),
        (1234567, "", "1,234,567"),
        (0.0, "s", "0 s"),
        (4.0, "", "4.000"),
        (1e-7, "", "1.000e-07"),
        (100.0, "%", "100 %"),
        (99.99999, "%", "99.99 %"),
        (45.112, "token/s", "45.11 token/s"),
    ],
)
def test_figures_are_written_with_four_digits_in_a_handy_unit(value, unit, text):
    assert quantity_text(measured(value, unit)) == text


def test_what_was_stated_is_written_as_stated_and_the_unknown_as_unknown():
    assert quantity_text(Quantity(0.02, "", Provenance.ASSUMED, "the job")) == "0.02"
    assert quantity_text(Quantity.unknown("s", "no event")) == "unknown"


_UNITS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


@given(value=st.floats(1e-9, 1e9))
def test_a_written_figure_is_within_a_twentieth_of_a_percent(value):
    number, unit = quantity_text(measured(value, "s")).split(" ")

    assert float(number.replace(",", "")) * _UNITS[unit] == pytest.approx(value, rel=5.1e-4)


@given(value=st.floats(0, 100, exclude_max=True))
def test_a_share_below_all_is_never_written_as_all(value):
    assert quantity_text(measured(value, "%")) != "100 %"
    assert float(quantity_text(measured(value, "%")).split(" ")[0]) < 100


def test_a_tooltip_holds_all_that_is_known():
    error = Error(0.1, 0.2, "spread of five runs")
    text = tooltip(Quantity(3.25, "s", Provenance.SIMULATED, "the model", error=error, conditions="LNC 2"))

    assert text.splitlines() == [
        "simulated: our model computed it",
        "value: 3.25 s",
        "source: the model",
        "conditions: LNC 2",
        "error: −10.00% to +20.00% (spread of five runs)",
    ]
    derived = Quantity.derived(2.0, "", "a / b", [measured(1.0)])
    assert "rests on measured figures" in tooltip(derived)
    assert "formula: a / b" in tooltip(derived)


def test_every_kind_has_a_letter_of_its_own():
    assert set(BADGES) == set(Provenance)
    assert len(set(BADGES.values())) == len(Provenance)


def test_rows_and_series_of_another_length_are_refused():
    with pytest.raises(ValueError, match="2 cells for 1 columns"):
        Table("t", (Column("a"),), (("x", "y"),))
    with pytest.raises(ValueError, match="1 x for 2 y"):
        Series("s", (1.0,), (1.0, 2.0), Provenance.MEASURED, "here")
    for chart in (BarChart, StackedBars):
        with pytest.raises(ValueError, match="1 values for 2 bars"):
            chart("c", "s", ("a", "b"), (BarSeries("s", (measured(1.0),)),))
    with pytest.raises(ValueError, match="1 totals for 2 bars"):
        StackedBars("c", "s", ("a", "b"), (), (measured(1.0),))
    with pytest.raises(ValueError, match="1 texts for 2 columns"):
        SideBySide("s", ("a", "b"), (TextRow("h", ("x",)),))


def line(y, *, log=False):
    series = Series("loss", tuple(float(i) for i in range(len(y))), y, Provenance.DERIVED, "a / b", slot=1)
    return LineChart("t", "step", "y", (series,), log_y=log)


def test_a_logarithmic_axis_leaves_zeros_out_and_says_so():
    chart = line((0.0, 0.5, None, 0.0), log=True)

    assert chart_figure(chart)["data"][0]["y"] == [None, 0.5, None, None]
    assert chart_figure(chart)["layout"]["yaxis"]["type"] == "log"
    assert chart_notes(chart) == ("loss: 2 of 4 points are 0, which has no place on this axis",)
    assert chart_notes(line((0.0,))) == ()


def test_series_differ_by_marker_and_dash_and_not_by_colour_alone():
    series = tuple(Series(str(i), (1.0,), (1.0,), Provenance.MEASURED, "here", slot=i) for i in range(4))
    data = chart_figure(LineChart("t", "x", "y", series))["data"]

    assert len({trace["marker"]["symbol"] for trace in data}) == 4
    assert len({trace["line"]["dash"] for trace in data}) == 4


def test_an_unknown_bar_is_not_drawn_and_is_named():
    chart = BarChart(
        "t", "s", ("a", "b"), (BarSeries("cold", (measured(1.0, "s"), Quantity.unknown("s", "no event"))),)
    )

    assert chart_figure(chart)["data"][0]["x"] == [1.0, None]
    assert chart_notes(chart) == ("unknown, so not drawn: b (cold)",)
    assert chart_kinds(chart) == (Provenance.MEASURED, Provenance.UNKNOWN)


def test_two_long_names_that_look_alike_stay_two_bars():
    names = ("n" * 60 + "a", "n" * 60 + "b")
    figure = chart_figure(BarChart("t", "s", names, (BarSeries("s", (measured(1.0), measured(2.0))),)))

    assert figure["data"][0]["y"] == [0, 1]
    assert figure["data"][0]["customdata"] == list(names)
    assert figure["layout"]["yaxis"]["ticktext"][0].endswith("…")


def test_the_table_of_a_chart_holds_its_figures():
    table = chart_table(line((2.5, None)))

    assert table.folded
    assert table.rows == (("0", "2.5"), ("1", "–"))
    bars = StackedBars("t", "s", ("a",), (BarSeries("p", (measured(1.0, "s"),)), BarSeries("q", (None,))))
    assert chart_table(bars).rows == (("a", measured(1.0, "s"), "–"),)


def test_every_chart_names_its_sources():
    for block in page_of("somewhere").sections[0].blocks[:4]:
        assert "somewhere" in chart_sources(block)


def test_a_terminal_table_marks_kinds_and_takes_no_markup_or_control_signs():
    table = Table(
        "t",
        (Column("[red]name"), Column("n", numeric=True)),
        (("[bold]x\x1b]0;gone\x07", measured(1.5, "s")),),
    )
    text = printed(terminal_table(table))

    assert "[red]name" in text
    assert "[bold]x�]0;gone�" in text
    assert "1.500 s M" in text
    assert "\x1b" not in text
    assert plain_text("a\nb\r") == "a\nb�"
    assert "M measured" in printed(kinds_line(table))
    assert "derived" not in printed(kinds_line(table))


def test_a_status_is_told_by_a_sign():
    assert "✕ no" in printed(terminal_table(Table("t", (Column("a"),), ((Status("no", "bad"),),))))


def test_a_waterfall_begins_each_step_where_the_one_before_ended_and_shows_every_error():
    with_error = measured(3.0, "USD").within(Error(0.5, 1.0, "spread"))
    unknown = Quantity.unknown("USD", "no price")
    chart = Waterfall("t", "USD", ("a", "b", "c"), (measured(2.0, "USD"), unknown, with_error), with_error)

    bar = chart_figure(chart)["data"][0]

    assert bar["base"] == [0.0, 2.0, 2.0, 0.0]
    assert bar["x"] == [2.0, None, 3.0, 3.0]
    assert bar["error_x"]["arrayminus"] == [0.0, 0.0, 1.5, 1.5]
    assert bar["error_x"]["array"] == [0.0, 0.0, 3.0, 3.0]
    assert any("unknown" in note and "b" in note for note in chart_notes(chart))
    table = chart_table(chart)
    assert table is not None
    assert [row[0] for row in table.rows] == ["a", "b", "c", "total"]


def test_a_waterfall_has_a_value_for_each_step():
    with pytest.raises(ValueError, match="1 values for 2 steps"):
        Waterfall("t", "USD", ("a", "b"), (measured(1.0, "USD"),), measured(1.0, "USD"))


def test_a_figure_is_written_with_its_error():
    assert (
        quantity_text(measured(20.0, "USD").within(Error(0.1, 0.25, "spread"))) == "20.00 USD (−10 % +25 %)"
    )
    assert quantity_text(measured(20.0, "USD").within(Error(0.1, 0.1, "spread"))) == "20.00 USD (±10 %)"
