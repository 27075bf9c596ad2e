"""From the text of the data files to checked records.

A data file may hold any of the top tables named in ``_TOP``. References between records are checked here, the shape of
one table by ``Table``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, TypeVar

from twintrack.errors import CatalogueError, nearest
from twintrack.hardware.chips import Chip
from twintrack.hardware.machines import Instance, Link, Machine, Server
from twintrack.hardware.records import Claim, Detail, Disagreement, Price, PriceModel, Record, Source, Status
from twintrack.hardware.software import SupportFact, read_support_fact
from twintrack.hardware.storage_prices import StoragePrice, read_storage_price
from twintrack.hardware.table import Table
from twintrack.hardware.throughputs import Throughput, read_throughput
from twintrack.quantity import Quantity

__all__ = ["Records", "read_records"]

_TOP = (
    "chip",
    "disagreement",
    "instance",
    "link",
    "price",
    "server",
    "software",
    "source",
    "storage_price",
    "throughput",
)
_FROM_CHIP = {
    "hbm_capacity_gib": ("hbm_capacity_gib", 1),
    "hbm_bandwidth_tb_per_s": ("hbm_bandwidth_tb_per_s", 1),
    "tensor_bf16_pflops": ("tensor_bf16_tflops", 1000),
    "tensor_fp8_pflops": ("tensor_fp8_tflops", 1000),
    "tensor_mxfp8_pflops": ("tensor_mxfp8_tflops", 1000),
    "tensor_fp32_pflops": ("tensor_fp32_tflops", 1000),
    "tensor_sparse_pflops": ("tensor_sparse_tflops", 1000),
}
"""Machine figures that are the chip's times the chips where no source states them: field, divisor."""

R = TypeVar("R", bound=Record)


@dataclass(slots=True)
class Records:
    """Everything that was read, by name."""

    sources: dict[str, Source] = field(default_factory=dict)
    chips: dict[str, Chip] = field(default_factory=dict)
    links: dict[str, Link] = field(default_factory=dict)
    instances: dict[str, Instance] = field(default_factory=dict)
    servers: dict[str, Server] = field(default_factory=dict)
    prices: list[Price] = field(default_factory=list)
    disagreements: list[Disagreement] = field(default_factory=list)
    throughputs: list[Throughput] = field(default_factory=list)
    software: list[SupportFact] = field(default_factory=list)
    storage_prices: list[StoragePrice] = field(default_factory=list)


def read_records(files: Mapping[str, str]) -> Records:
    """Read and check the data files.

    Args:
        files: text of each file by its name.

    Raises:
        CatalogueError: for text that is not TOML, unknown or missing keys, figures without unit or source,
            units that do not belong to the key, references to what does not exist; file and key are named.
    """
    tables = {file: _parse(file, text) for file, text in sorted(files.items())}
    records = Records()
    _each(tables, "source", records.sources, _source)
    _each(tables, "link", records.links, lambda t, n: _record(Link, t, n, records))
    _each(tables, "chip", records.chips, lambda t, n: _record(Chip, t, n, records))
    _each(tables, "instance", records.instances, lambda t, n: _record(Instance, t, n, records))
    _each(tables, "server", records.servers, lambda t, n: _record(Server, t, n, records))
    for top in tables.values():
        records.prices.extend(_price(table, records) for table in top.tables("price"))
    for top in tables.values():
        records.disagreements.extend(_disagreement(table, records) for table in top.tables("disagreement"))
        for table in top.tables("throughput"):
            records.throughputs.append(read_throughput(table, records.chips, records.sources))
        for table in top.tables("software"):
            records.software.append(read_support_fact(table, records.sources))
        for table in top.tables("storage_price"):
            records.storage_prices.append(read_storage_price(table, records.sources))
    _check_unique_names(records)
    return records


def _parse(file: str, text: str) -> Table:
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise CatalogueError("TOML", found=str(error), where=file, remedy="correct the data file") from error
    top = Table(file, "", content)
    for key in top.names():
        if key not in _TOP:
            raise top.refuse(f"one of {', '.join(_TOP)}", key, key, nearest(key, _TOP))
    return top


def _each(
    tables: Mapping[str, Table], kind: str, into: dict[str, Any], read: Callable[[Table, str], Any]
) -> None:
    for top in tables.values():
        if not top.has(kind):
            continue
        group = top.table(kind)
        for name in group.names():
            if name in into:
                raise group.refuse(f"each {kind} once", name, name, "remove one of the two")
            entry = group.table(name)
            into[name] = read(entry, name)
            entry.close()


def _source(table: Table, key: str) -> Source:
    undated = table.text("undated", default="")
    date = None if undated else table.date("date")
    where = table.text("where")
    allowed = [s for s in Status if s not in (Status.DERIVED, Status.UNKNOWN)]
    return Source(
        key, f"{where} [{undated}]" if undated else where, date, Status(table.choice("status", allowed))
    )


def _record(kind: type[R], table: Table, name: str, records: Records) -> R:
    """A record of ``kind``: its texts, then its figures, then what is derived from the chip."""
    values: dict[str, Any] = {
        "name": name,
        "title": table.text("title"),
        "note": table.text("note", default=""),
    }
    details: dict[str, Detail] = {}
    if issubclass(kind, Machine):
        values |= _machine_texts(table, records)
    if kind is Server:
        values["member"] = table.choice("member", records.instances) if table.has("member") else ""
    if kind is Link:
        values |= {key: table.text(key) for key in ("connects", "direction")}
    if kind is Chip:
        values |= {key: table.text(key) for key in ("vendor", "architecture")}
        values |= {"link": table.choice("link", records.links), "lnc": table.integers("lnc")}
    for item in fields(kind):
        if "unit" not in item.metadata:
            continue
        if table.has(item.name):
            values[item.name], details[item.name] = table.figure(
                item.name, item.metadata["unit"], records.sources
            )
        elif issubclass(kind, Machine) and item.name in _FROM_CHIP:
            figure = _from_chip(item.name, item.metadata["unit"], values, records)
            if figure is not None:
                values[item.name] = figure
                details[item.name] = Detail(Status.DERIVED if figure.known else Status.UNKNOWN)
        elif item.default is not None:
            table.figure(item.name, item.metadata["unit"], records.sources)  # refuses: it is missing
    table.close()
    if kind is Chip:
        _check_cores(table, values)
    return kind(**values, details=MappingProxyType(details))


def _check_cores(table: Table, values: Mapping[str, Any]) -> None:
    needed = ["core_tensor_bf16_tflops", "sbuf_per_core_mib", "psum_per_core_mib", "lnc"]
    if "cores" in values:
        for key in needed:
            if not values.get(key):
                raise table.refuse("this key for a chip that has cores", "nothing", key)
    elif values["lnc"]:
        raise table.refuse("no lnc for a chip without cores", values["lnc"], "lnc")


def _machine_texts(table: Table, records: Records) -> dict[str, str]:
    chip = table.choice("chip", records.chips)
    link = table.choice("link", records.links) if table.has("link") else ""
    return {"chip": chip, "link": link, "topology": table.text("topology", default="")}


def _from_chip(name: str, unit: str, values: Mapping[str, Any], records: Records) -> Quantity | None:
    field_name, divisor = _FROM_CHIP[name]
    chip = records.chips[values["chip"]]
    each: Quantity | None = getattr(chip, field_name)
    count: Quantity = values["chip_count"]
    if each is None:
        return None
    if each.value is None or count.value is None:
        return Quantity.unknown(unit, f"unknown for the {chip.title} chip: {each.source}")
    formula = f"{count.value} chips x {each.value:g} {each.unit} per {chip.title} chip"
    return Quantity.derived(count.value * each.value / divisor, unit, formula, [each, count])


def _price(table: Table, records: Records) -> Price:
    machines: dict[str, Machine] = {**records.instances, **records.servers}
    name = table.choice("machine", machines)
    model = PriceModel(table.choice("model", PriceModel))
    price, detail = table.figure("usd_per_hour", "USD/h", records.sources, observed=True)
    chips = machines[name].chip_count
    if price.value is None or chips.value is None:
        per_chip = Quantity.unknown("USD/h", price.source)
    else:
        formula = f"{price.value:g} USD/h / {chips.value} chips"
        per_chip = Quantity.derived(price.value / chips.value, "USD/h", formula, [price, chips])
    regions = table.texts("regions", required=False)
    table.close()
    return Price(
        machine=name,
        model=model,
        regions=regions,
        usd_per_hour=price,
        per_chip_usd_per_hour=per_chip,
        detail=detail,
    )


def _disagreement(table: Table, records: Records) -> Disagreement:
    known = [*records.chips, *records.instances, *records.servers, *records.links]
    key, topic, about = table.text("key"), table.text("topic"), table.texts("about")
    for name in about:
        if name not in known:
            raise table.refuse(
                "the name of a chip, instance, server or link", name, "about", nearest(name, known)
            )
    claims: list[Claim] = []
    for entry in table.tables("claim"):
        claims.append(
            Claim(entry.text("value"), entry.source(records.sources), entry.text("note", default=""))
        )
        entry.close()
    if len({claim.value for claim in claims}) < 2:
        raise table.refuse("at least two claims that differ", len(claims), "claim")
    used = table.choice("used", dict.fromkeys(claim.value for claim in claims))
    reason = table.text("reason")
    table.close()
    return Disagreement(
        key=key,
        topic=topic,
        about=about,
        claims=tuple(claims),
        used=next(claim for claim in claims if claim.value == used),
        reason=reason,
    )


def _check_unique_names(records: Records) -> None:
    seen: dict[str, str] = {}
    groups: dict[str, Mapping[str, Record]] = {
        "chip": records.chips,
        "link": records.links,
        "instance": records.instances,
        "server": records.servers,
    }
    for kind, names in groups.items():
        for name in names:
            if name in seen or name != name.lower():
                found = f"{name!r}, also a {seen[name]}" if name in seen else repr(name)
                raise CatalogueError(
                    "a lower-case name used once", found=found, where=f"{kind}.{name}", remedy="rename one"
                )
            seen[name] = kind
    keyed: dict[str, list[str]] = {
        "disagreement": [item.key for item in records.disagreements],
        "throughput": [item.key for item in records.throughputs],
        "software": [item.key for item in records.software],
    }
    for kind, keys in keyed.items():
        for key in keys:
            if keys.count(key) > 1:
                raise CatalogueError(
                    f"each {kind} once", found=key, where=f"{kind}.{key}", remedy="remove one of the two"
                )
