"""``twintrack hardware``: what the catalogue knows of chips, instances, servers, links and prices."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from twintrack.hardware import Catalogue, Disagreement, Machine, PriceModel, Source, Status, load_catalogue
from twintrack.hardware.records import Record
from twintrack.hardware.sheet import Row, Sheet, figure_text, sheet, sheet_json
from twintrack.quantity import Provenance, Quantity

__all__ = ["command"]

_MARK_OF = MappingProxyType(
    {Status.DERIVED: "d", Status.THIRD_PARTY: "t", Status.DRIVER: "r", Status.IMAGE: "i"}
)
_LEGEND = (
    "No mark: published by the vendor; t: by a third party; r: reported by a driver; d: derived.\n"
    "'twintrack hardware show NAME' shows every figure with its source, prices and disagreements."
)
_CHIP_COLUMNS = MappingProxyType(
    {
        "tensor_bf16_tflops": "BF16 dense\nTFLOPS",
        "tensor_fp8_tflops": "FP8 dense\nTFLOPS",
        "hbm_capacity_gib": "HBM\nGiB",
        "hbm_bandwidth_tb_per_s": "HBM\nTB/s",
        "link_bandwidth_gb_per_s": "link\nGB/s",
        "power_w": "power\nW",
    }
)
_MACHINE_COLUMNS = MappingProxyType(
    {
        "tensor_bf16_pflops": "BF16 dense\nPFLOPS",
        "hbm_capacity_gib": "HBM\nGiB",
        "hbm_bandwidth_tb_per_s": "HBM\nTB/s",
        "efa_gbps": "EFA\nGbps",
    }
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Chips, instances, servers, links and prices, every figure with its source."""


@command.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Names and titles for machines.")
def list_names(as_json: bool) -> None:
    """Show every name the catalogue knows, with its main figures."""
    catalogue = load_catalogue()
    groups = {
        "chips": catalogue.chips,
        "instances": catalogue.instances,
        "servers": catalogue.servers,
        "links": catalogue.links,
    }
    if as_json:
        names = {group: {name: item.title for name, item in items.items()} for group, items in groups.items()}
        click.echo(json.dumps({"format": "twintrack.hardware/1", **names}, indent=2, ensure_ascii=False))
        return
    console = Console(highlight=False)
    console.print(_summary("chips", catalogue.chips.values(), _CHIP_COLUMNS))
    for title in ("instances", "servers"):
        console.print(_summary(title, groups[title].values(), _MACHINE_COLUMNS))
    console.print(_links(catalogue))
    console.print(_block_prices(catalogue))
    console.print(Text(_LEGEND))


@command.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="All figures as JSON for machines.")
def show(name: str, as_json: bool) -> None:
    """Show all figures of NAME: a chip, instance, server or link."""
    content = sheet(load_catalogue(), name)
    if as_json:
        click.echo(json.dumps(sheet_json(content), indent=2, ensure_ascii=False))
        return
    console = Console(highlight=False)
    console.print(Text.assemble((content.title, "bold"), f"  ({content.kind} {content.name})"))
    for key, value in content.facts:
        console.print(Text(f"{key}: {value}"))
    notes = _Footnotes()
    _print_sections(console, content, notes)
    _print_disagreements(console, content.disagreements, notes)
    notes.print(console)


class _Footnotes:
    """Sources, numbered in the order in which figures refer to them."""

    def __init__(self) -> None:
        self._numbers: dict[Source, int] = {}

    def number(self, source: Source | None) -> str:
        """``[3]`` for a source, an empty text where there is none."""
        return f"[{self._numbers.setdefault(source, len(self._numbers) + 1)}]" if source else ""

    def print(self, console: Console) -> None:
        """Print the sources that were referred to."""
        console.print(Text("\nsources", style="bold"))
        grid = Table.grid(padding=(0, 1))
        grid.add_column(justify="right")
        grid.add_column(overflow="fold")
        for source, number in self._numbers.items():
            kind = source.status.value.replace("_", " ")
            grid.add_row(Text(f"[{number}]"), Text(f"{source.where}; {kind}, {source.date or 'undated'}"))
        console.print(grid)


def _print_sections(console: Console, content: Sheet, notes: _Footnotes) -> None:
    for heading, rows in content.sections:
        if not rows:
            continue
        table = Table(title=heading, title_justify="left", title_style="bold", box=box.SIMPLE)
        table.add_column("price" if heading == "prices" else "figure", ratio=4, overflow="fold")
        table.add_column("value", justify="right", no_wrap=True)
        table.add_column("kind", no_wrap=True)
        table.add_column("date", no_wrap=True)
        table.add_column("source", no_wrap=True)
        table.add_column("holds for, formula, remarks", ratio=5, overflow="fold")
        for row in rows:
            value, number = figure_text(row.quantity), notes.number(row.detail.source)
            date = row.quantity.date or ("undated" if number else "")
            table.add_row(Text(row.label), Text(value), _kind(row), date, Text(number), _remarks(row))
        console.print(table)


def _kind(row: Row) -> Text:
    kind, status = row.quantity.kind, row.detail.status
    if kind is Provenance.PUBLISHED and status is not Status.DOC:
        return Text(f"{kind}\n({status.value.replace('_', ' ')})")
    return Text(str(kind))


def _remarks(row: Row) -> Text:
    """Conditions, formula or reason, the source's own wording, notes: all of it, nothing is cut off."""
    quantity, detail = row.quantity, row.detail
    own = detail.formula
    if quantity.kind is Provenance.UNKNOWN or (quantity.kind is Provenance.DERIVED and not own):
        own = quantity.source
    wording = f"written there: {detail.as_written}" if detail.as_written else ""
    parts = (quantity.conditions, own and f"= {own}" if quantity.known else own, wording, detail.note)
    return Text("; ".join(part for part in parts if part))


def _print_disagreements(console: Console, items: tuple[Disagreement, ...], notes: _Footnotes) -> None:
    if items:
        console.print(Text("where sources disagree", style="bold"))
    for item in items:
        grid = Table.grid(padding=(0, 1))
        grid.add_column(width=6, justify="right")
        grid.add_column(overflow="fold")
        for claim in item.claims:
            remark = f"; {claim.note}" if claim.note else ""
            where = f"({claim.source.status.value.replace('_', ' ')}, {claim.source.date or 'undated'})"
            mark, style = ("used", "bold") if claim is item.used else ("or", "")
            line = Text.assemble((claim.value, style), f" {notes.number(claim.source)} {where}{remark}")
            grid.add_row(Text(mark, style=style), line)
        grid.add_row("why", Text(item.reason, style="italic"))
        console.print(Text(f"\n{item.topic}", style="underline"))
        console.print(grid)


def _summary(title: str, records: Iterable[Record], columns: Mapping[str, str]) -> Table:
    """One line per record; ``columns`` maps field names to headings, in which the units stand."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE, pad_edge=False)
    # what a machine is made of folds where a terminal is narrow; a name or a figure is never cut
    table.add_column("name", no_wrap=True)
    if columns is _MACHINE_COLUMNS:
        table.add_column("chips", overflow="fold", min_width=6)
    for heading in columns.values():
        table.add_column(heading, justify="right", no_wrap=True, min_width=8)
    for record in records:
        chips = [f"{record.chip_count.value} x {record.chip}"] if isinstance(record, Machine) else []
        table.add_row(record.name, *chips, *(_cell(record, column) for column in columns))
    return table


def _links(catalogue: Catalogue) -> Table:
    table = Table(title="links", title_justify="left", title_style="bold", box=box.SIMPLE)
    table.add_column("name", no_wrap=True)
    table.add_column("per chip", justify="right", no_wrap=True)
    table.add_column("connects", overflow="fold")
    for link in catalogue.links.values():
        name, unit = ("per_chip_gb_per_s", "GB/s") if link.per_chip_gb_per_s else ("per_chip_gbps", "Gbps")
        table.add_row(link.name, _cell(link, name, unit), Text(link.connects))
    return table


def _cell(record: Record, name: str, unit: str = "") -> str:
    """A figure to five digits with the mark of its kind; ``-`` where it does not apply."""
    quantity: Quantity | None = getattr(record, name)
    if quantity is None:
        return "-"
    if quantity.value is None:
        return "unknown"
    value = quantity.value
    number = f"{value:,.0f}" if value == int(value) else f"{value:,.5g}"
    return " ".join(part for part in (number, unit, _MARK_OF.get(record.details[name].status, " ")) if part)


def _block_prices(catalogue: Catalogue) -> Table:
    """The newest Capacity Block prices of each machine, lowest to highest over the regions, dated."""
    title = "Capacity Block prices, newest observation, lowest to highest over the regions"
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE)
    table.add_column("name", no_wrap=True)
    for heading in ("USD/h", "USD/h per chip"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("observed", no_wrap=True)
    for machine in (*catalogue.instances, *catalogue.servers):
        rows = [row for row in catalogue.prices(machine) if row.model is PriceModel.CAPACITY_BLOCK]
        known = [row for row in rows if row.usd_per_hour.known]
        if known:
            date = known[0].usd_per_hour.date or ""
            newest = [row for row in known if row.usd_per_hour.date == date]
            whole = _span([row.usd_per_hour for row in newest], _MARK_OF[known[0].detail.status])
            table.add_row(machine, whole, _span([row.per_chip_usd_per_hour for row in newest], "d"), date)
        elif rows:
            table.add_row(machine, "unknown", "unknown", "")
    return table


def _span(prices: list[Quantity], mark: str) -> str:
    values = sorted(price.require() for price in prices)
    ends = dict.fromkeys((f"{values[0]:,.6g}", f"{values[-1]:,.6g}"))
    return f"{' to '.join(ends)} {mark}"
