"""The catalogue as rows: what a person or a program is shown of a chip, instance, server or link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twintrack.hardware.catalogue import Catalogue
from twintrack.hardware.chips import Chip
from twintrack.hardware.machines import Instance, Link, Server
from twintrack.hardware.records import Detail, Disagreement, Status
from twintrack.quantity import Provenance, Quantity

__all__ = ["Row", "Sheet", "figure_text", "sheet", "sheet_json"]

_SCALES: Mapping[str, tuple[tuple[float, str], ...]] = {
    "FLOP/s": ((1e12, "TFLOPS"),),
    "byte/s": ((1e12, "TB/s"), (1e9, "GB/s")),
    "byte": ((2.0**30, "GiB"), (2.0**20, "MiB")),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. ``key`` is its field name, ``label`` what people read."""

    key: str
    label: str
    quantity: Quantity
    detail: Detail
    regions: tuple[str, ...] = ()
    """Regions that a price holds for."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """Everything that is known of one name. ``sections`` are headed groups of rows, prices among them."""

    kind: str
    name: str
    title: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[tuple[str, tuple[Row, ...]], ...]
    disagreements: tuple[Disagreement, ...]


def sheet(catalogue: Catalogue, name: str) -> Sheet:
    """All figures, prices and disagreements of a chip, instance, server or link.

    Raises:
        CatalogueError: if there is no such name; the nearest is offered.
    """
    record = catalogue.find(name)
    rows = tuple(Row(key, label, quantity, record.details[key]) for key, label, quantity in record.figures())
    sections: list[tuple[str, tuple[Row, ...]]] = [("figures", rows)]
    if isinstance(record, Chip):
        sections += [(f"logical NeuronCore, LNC {lnc}", _core_rows(record, lnc)) for lnc in record.lnc]
    elif not isinstance(record, Link):
        sections.append(("prices", _price_rows(catalogue, record.name)))
    return Sheet(
        kind=type(record).__name__.lower(),
        name=record.name,
        title=record.title,
        facts=_facts(record),
        sections=tuple(sections),
        disagreements=catalogue.disagreements_about(record.name),
    )


def figure_text(quantity: Quantity) -> str:
    """Value and unit for people, base units scaled: ``157200000000000 FLOP/s`` is ``157.2 TFLOPS``."""
    if quantity.value is None:
        return "unknown"
    value, unit = float(quantity.value), quantity.unit
    for size, scaled in _SCALES.get(unit, ()):
        if value >= size:
            value, unit = value / size, scaled
            break
    text = f"{value:,.0f}" if value == int(value) else f"{value:,.8g}"
    return f"{text} {unit}"


def sheet_json(content: Sheet) -> dict[str, Any]:
    """The sheet as plain data, figures unscaled."""
    return {
        "format": "twintrack.hardware/1",
        "kind": content.kind,
        "name": content.name,
        "title": content.title,
        "facts": dict(content.facts),
        "sections": {heading: [_row_json(row) for row in rows] for heading, rows in content.sections},
        "disagreements": [
            {
                "key": item.key,
                "topic": item.topic,
                "used": item.used.value,
                "reason": item.reason,
                "claims": [
                    {
                        "value": claim.value,
                        "source": claim.source.where,
                        "date": claim.source.date,
                        "status": claim.source.status.value,
                        "note": claim.note,
                    }
                    for claim in item.claims
                ],
            }
            for item in content.disagreements
        ],
    }


def _row_json(row: Row) -> dict[str, Any]:
    quantity = row.quantity
    return {
        "key": row.key,
        "label": row.label,
        "value": quantity.value,
        "unit": quantity.unit,
        "kind": quantity.kind.value,
        "rests_on": quantity.rests_on.value if quantity.rests_on else None,
        "status": row.detail.status.value,
        "source": quantity.source,
        "date": quantity.date,
        "conditions": quantity.conditions,
        "as_written": row.detail.as_written,
        "note": row.detail.note,
        "regions": list(row.regions),
    }


def _facts(record: Chip | Instance | Server | Link) -> tuple[tuple[str, str], ...]:
    if isinstance(record, Chip):
        facts = [("vendor", record.vendor), ("architecture", record.architecture), ("link", record.link)]
        facts.append(("logical NeuronCore configurations", ", ".join(map(str, record.lnc))))
    elif isinstance(record, Link):
        facts = [("connects", record.connects), ("direction", record.direction)]
    else:
        facts = [("chip", record.chip), ("link", record.link), ("topology", record.topology)]
        if isinstance(record, Server):
            facts.append(("made of", record.member))
    facts.append(("note", record.note))
    return tuple((key, value) for key, value in facts if value)


def _core_rows(chip: Chip, lnc: int) -> tuple[Row, ...]:
    core = chip.logical_core(lnc)
    figures = {
        f"tensor_peak_flop_per_s.{dtype}": (f"TensorE peak {dtype.upper()}, dense", peak)
        for dtype, peak in core.tensor_peak_flop_per_s.items()
    }
    figures |= {
        "hbm_bandwidth_byte_per_s": ("HBM bandwidth, equal share", core.hbm_bandwidth_byte_per_s),
        "hbm_capacity_byte": ("HBM capacity, equal share", core.hbm_capacity_byte),
        "sbuf_byte": ("SBUF", core.sbuf_byte),
        "psum_byte": ("PSUM", core.psum_byte),
    }
    return tuple(Row(key, label, q, _core_detail(chip, key, q)) for key, (label, q) in figures.items())


def _core_detail(chip: Chip, key: str, quantity: Quantity) -> Detail:
    """Status of a logical core's figure: the core's own where it is that figure, else derived."""
    if quantity.kind is Provenance.UNKNOWN:
        return Detail(Status.UNKNOWN)
    if quantity.kind is Provenance.DERIVED:
        return Detail(Status.DERIVED)
    stem, _, dtype = key.partition(".")
    name = f"core_tensor_{dtype}_tflops" if dtype else f"{stem.removesuffix('_byte')}_per_core_mib"
    own = chip.details[name]
    return Detail(own.status, own.source)


def _price_rows(catalogue: Catalogue, machine: str) -> tuple[Row, ...]:
    rows: list[Row] = []
    for price in catalogue.prices(machine):
        label = price.model.value.replace("_", " ")
        if price.usd_per_hour.known:
            label += f": {', '.join(price.regions) or 'no region stated'}"
        rows.append(Row(f"price.{price.model.value}", label, price.usd_per_hour, price.detail, price.regions))
    return tuple(rows)
