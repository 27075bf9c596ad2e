"""What a report is made of: plain frozen records that a caller fills, with no figure of their own.

A number reaches a page in one of two ways: as a ``Quantity`` in a cell or a bar, or as points of a
``Series``, which has one kind and one source for all of them. Texts may come from anywhere (a model, a data
file): nothing here trusts them, and the HTML shell escapes every one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from twintrack.quantity import Provenance, Quantity
from twintrack.report.tracks import Tracks

__all__ = [
    "BarChart",
    "BarSeries",
    "Block",
    "Callout",
    "Cell",
    "Chart",
    "Column",
    "Lane",
    "Limit",
    "LineChart",
    "Mark",
    "Page",
    "Section",
    "Series",
    "SideBySide",
    "Span",
    "StackedBars",
    "Status",
    "Table",
    "TextRow",
    "Timeline",
    "Tone",
    "Waterfall",
]

Tone = Literal["good", "bad", "warn", "plain"]
SpanStyle = Literal["start", "work", "save"]
MarkStyle = Literal["checkpoint", "resume", "stop", "lost"]


@dataclass(frozen=True, slots=True)
class Status:
    """A short verdict; the tone is told by a sign as well as by colour."""

    text: str
    tone: Tone = "plain"


Cell = str | Quantity | Status


@dataclass(frozen=True, slots=True)
class Column:
    """Head of a column; figures stand to the right, words to the left."""

    name: str
    numeric: bool = False
    note: str = ""
    """Shown as a tooltip."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells, each row as long as ``columns``.

    Raises:
        ValueError: if a row is not.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    folded: bool = False
    """Shown closed; a click opens it."""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(
                    f"table {self.title!r}: a row has {len(row)} cells for {len(self.columns)} columns"
                )


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one kind from one source; ``y`` is ``None`` where nothing is known.

    Raises:
        ValueError: if ``x`` and ``y`` differ in length.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    kind: Provenance
    source: str
    slot: int = 0
    """Which colour, marker and dash of the palette; equal slots belong together over the whole page."""
    line: bool = True
    """Joined by a line; otherwise points alone, drawn larger and hollow."""

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(f"series {self.name!r}: {len(self.x)} x for {len(self.y)} y")


@dataclass(frozen=True, slots=True)
class Limit:
    """A horizontal line to compare with, such as a tolerance."""

    name: str
    value: Quantity


@dataclass(frozen=True, slots=True)
class LineChart:
    """Several series over one axis."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    limits: tuple[Limit, ...] = ()
    log_x: bool = False
    log_y: bool = False
    """Logarithmic; points at zero or below cannot stand on such an axis and are counted in a note."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class BarSeries:
    """One figure per bar: ``None`` where the part does not exist there, unknown where nobody knows it."""

    name: str
    values: tuple[Quantity | None, ...]
    slot: int = 0


@dataclass(frozen=True, slots=True)
class BarChart:
    """Horizontal bars, the series beside each other.

    Raises:
        ValueError: if a series has another number of values than there are bars.
    """

    title: str
    unit: str
    bars: tuple[str, ...]
    series: tuple[BarSeries, ...]
    note: str = ""

    def __post_init__(self) -> None:
        _same_length(self.title, self.bars, self.series)


@dataclass(frozen=True, slots=True)
class StackedBars:
    """Horizontal bars made of parts, one after the other; all parts have the same unit.

    Raises:
        ValueError: if a part or the totals have another number of values than there are bars.
    """

    title: str
    unit: str
    bars: tuple[str, ...]
    parts: tuple[BarSeries, ...]
    totals: tuple[Quantity, ...] = ()
    """Written behind the bars; none, or one per bar."""
    note: str = ""

    def __post_init__(self) -> None:
        _same_length(self.title, self.bars, self.parts)
        if self.totals and len(self.totals) != len(self.bars):
            raise ValueError(f"chart {self.title!r}: {len(self.totals)} totals for {len(self.bars)} bars")


@dataclass(frozen=True, slots=True)
class Waterfall:
    """Amounts that add up, each beginning where the one before ended, with the errors of all of them.

    Raises:
        ValueError: if there are not as many values as steps.
    """

    title: str
    unit: str
    steps: tuple[str, ...]
    values: tuple[Quantity, ...]
    """Amounts of the steps; unknown ones take no room and are written as unknown."""
    total: Quantity
    total_name: str = "total"
    slot: int = 0
    note: str = ""

    def __post_init__(self) -> None:
        if len(self.steps) != len(self.values):
            raise ValueError(f"chart {self.title!r}: {len(self.values)} values for {len(self.steps)} steps")


def _same_length(title: str, bars: tuple[str, ...], series: tuple[BarSeries, ...]) -> None:
    for one in series:
        if len(one.values) != len(bars):
            raise ValueError(
                f"chart {title!r}: {one.name!r} has {len(one.values)} values for {len(bars)} bars"
            )


@dataclass(frozen=True, slots=True)
class Span:
    """Something that lasted from ``start`` to ``end``."""

    start: float
    end: float
    label: str
    style: SpanStyle


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at one point."""

    at: float
    label: str
    style: MarkStyle


@dataclass(frozen=True, slots=True)
class Lane:
    """One row of a timeline."""

    name: str
    spans: tuple[Span, ...]
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class Timeline:
    """Lanes over one axis (seconds or steps), all from one kind of source."""

    title: str
    x_label: str
    lanes: tuple[Lane, ...]
    kind: Provenance
    source: str
    names: tuple[tuple[SpanStyle | MarkStyle, str], ...]
    """What each style means here; also the legend."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class TextRow:
    """One text per column; ``None`` where there is none."""

    heading: str
    texts: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Texts to be read beside each other; line breaks in them are kept.

    Raises:
        ValueError: if a row has another number of texts than there are columns.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[TextRow, ...]
    note: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.texts) != len(self.columns):
                raise ValueError(f"{self.title!r}: {len(row.texts)} texts for {len(self.columns)} columns")


@dataclass(frozen=True, slots=True)
class Callout:
    """A statement that must not be missed."""

    tone: Tone
    title: str
    text: str = ""
    items: tuple[str, ...] = ()


Chart = LineChart | BarChart | StackedBars | Timeline | Waterfall
Block = Table | Chart | Tracks | SideBySide | Callout


@dataclass(frozen=True, slots=True)
class Section:
    """A headed part of a page."""

    title: str
    blocks: tuple[Block, ...]
    lead: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A whole report: the head stands before the contents list, the sections after it."""

    title: str
    subtitle: str
    head: tuple[Block, ...]
    sections: tuple[Section, ...]
    footer: str = ""
