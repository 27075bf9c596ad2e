"""A page of records as one HTML file that opens without a network.

Three things keep untrusted text (answers, prompts, names) from becoming markup: Jinja's autoescape on every
text, chart JSON with ``<``, ``>`` and ``&`` written as escapes, and a content security policy in the page
itself that lets no address be loaded and runs no script but the inlined ones, named by their digests."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources

import jinja2
from plotly.offline import get_plotlyjs

from twintrack.quantity import Provenance, Quantity
from twintrack.report.chart import chart_figure
from twintrack.report.chart_facts import chart_kinds, chart_notes, chart_sources, chart_table
from twintrack.report.format import BADGES, KIND_MEANING, quantity_text, tooltip
from twintrack.report.records import (
    BarChart,
    Callout,
    Cell,
    LineChart,
    Page,
    SideBySide,
    StackedBars,
    Status,
    Table,
    Timeline,
    Waterfall,
)
from twintrack.report.tracks import Tracks, tracks_data

__all__ = ["render_page"]


def render_page(page: Page) -> str:
    """One self-contained HTML document (about 5 MB, nearly all of it the chart library, inlined once).

    The same page gives the same text, byte for byte.
    """
    # a carriage return would be normalised by the browser before it compares digests
    library = get_plotlyjs().replace("\r\n", "\n").replace("\r", "\n")
    script = _asset("page.js")
    blocks = (*page.head, *(block for section in page.sections for block in section.blocks))
    zooming = _asset("tracks.js") if any(isinstance(block, Tracks) for block in blocks) else ""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("twintrack.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals.update(
        badges=BADGES,
        width=_width,
        meanings=KIND_MEANING,
        kinds=tuple(Provenance),
        quantity_text=quantity_text,
        tooltip=tooltip,
        chart_figure=chart_figure,
        chart_kinds=chart_kinds,
        chart_notes=chart_notes,
        chart_sources=chart_sources,
        chart_table=chart_table,
        tracks_data=tracks_data,
    )
    environment.tests.update(
        quantity=lambda value: isinstance(value, Quantity),
        status=lambda value: isinstance(value, Status),
        table=lambda value: isinstance(value, Table),
        chart=lambda value: isinstance(value, LineChart | BarChart | StackedBars | Timeline | Waterfall),
        tracks=lambda value: isinstance(value, Tracks),
        texts=lambda value: isinstance(value, SideBySide),
        callout=lambda value: isinstance(value, Callout),
    )
    return environment.get_template("page.html.j2").render(
        page=page,
        policy=_policy(library, script, *([zooming] if zooming else [])),
        style=_asset("page.css"),
        library=library,
        script=script,
        zooming=zooming,
    )


def _width(cell: Cell) -> int:
    """Signs in a cell: a short one is not broken into lines, a long one may be broken anywhere."""
    match cell:
        case Status():
            return len(cell.text)
        case Quantity():
            return len(quantity_text(cell))
        case _:
            return len(cell)


def _asset(name: str) -> str:
    return resources.files("twintrack.report").joinpath("templates", name).read_text(encoding="utf-8")


def _policy(*scripts: str) -> str:
    """Content Security Policy Level 3: nothing is loaded, no script runs but those with these digests."""
    digests = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
    )
    return (
        f"default-src 'none'; script-src {digests}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
