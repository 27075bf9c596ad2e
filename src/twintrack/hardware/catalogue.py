"""The catalogue: lookups by name over the records that the data files hold."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import TypeVar

from twintrack.errors import CatalogueError, nearest
from twintrack.hardware.chips import Chip
from twintrack.hardware.machines import Instance, Link, Server
from twintrack.hardware.reading import read_records
from twintrack.hardware.records import Disagreement, Price, PriceModel, Source
from twintrack.hardware.software import SupportFact
from twintrack.hardware.storage_prices import StoragePrice
from twintrack.hardware.table import parse_date
from twintrack.hardware.throughputs import Throughput

__all__ = ["Catalogue", "load_catalogue", "parse_catalogue"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Chips, instances, servers, links and prices by name. Names are lower case; lookups ignore case."""

    sources: Mapping[str, Source]
    chips: Mapping[str, Chip]
    links: Mapping[str, Link]
    instances: Mapping[str, Instance]
    servers: Mapping[str, Server]
    all_prices: tuple[Price, ...]
    disagreements: tuple[Disagreement, ...]
    throughputs: tuple[Throughput, ...]
    """Published training speeds, in the order of the data files."""
    software: tuple[SupportFact, ...]
    """What is published about the support of each side's software."""
    storage_prices: tuple[StoragePrice, ...]
    """Dated prices of storage and of data transfer."""

    def chip(self, name: str) -> Chip:
        """The chip of this name.

        Raises:
            CatalogueError: if there is none; the nearest name is offered.
        """
        return _lookup(self.chips, name, "chip")

    def instance(self, name: str) -> Instance:
        """The instance type of this name.

        Raises:
            CatalogueError: if there is none; the nearest name is offered.
        """
        return _lookup(self.instances, name, "instance")

    def server(self, name: str) -> Server:
        """The server (UltraServer) of this name.

        Raises:
            CatalogueError: if there is none; the nearest name is offered.
        """
        return _lookup(self.servers, name, "server")

    def link(self, name: str) -> Link:
        """The link of this name.

        Raises:
            CatalogueError: if there is none; the nearest name is offered.
        """
        return _lookup(self.links, name, "link")

    def find(self, name: str) -> Chip | Instance | Server | Link:
        """The chip, instance, server or link of this name.

        Raises:
            CatalogueError: if there is none; the nearest name is offered.
        """
        records: dict[str, Chip | Instance | Server | Link] = {
            **self.chips,
            **self.instances,
            **self.servers,
            **self.links,
        }
        return _lookup(records, name, "chip, instance, server or link")

    def prices(self, machine: str) -> tuple[Price, ...]:
        """Every observation for an instance or server, newest first, prices that are unknown last.

        Raises:
            CatalogueError: if there is no such instance or server.
        """
        name = _lookup({**self.instances, **self.servers}, machine, "instance or server").name
        mine = [price for price in self.all_prices if price.machine == name]
        return tuple(sorted(mine, key=_newest_first))

    def price(self, machine: str, model: PriceModel | str, region: str, on: datetime.date) -> Price:
        """The newest price observed in a region on or before a day.

        Raises:
            CatalogueError: if no source gives one; another region's or model's price never stands in.
        """
        rows = self.prices(machine)
        wanted = PriceModel(_lookup({m.value: m.value for m in PriceModel}, model, "price model"))
        for row in rows:
            dates = parse_date(row.usd_per_hour.date or "")
            if row.model is wanted and region in row.regions and dates and dates[1] <= on:
                return row
        reasons = [
            row.usd_per_hour.source for row in rows if row.model is wanted and not row.usd_per_hour.known
        ]
        found = "; ".join(reasons) or "no such observation"
        raise CatalogueError(
            f"a {wanted} price of {machine} in {region} observed by {on.isoformat()}",
            found=found,
            where="hardware catalogue",
            remedy=f"see 'twintrack hardware show {machine}', or give the price in the job",
        )

    def disagreements_about(self, name: str) -> tuple[Disagreement, ...]:
        """What sources say differently of a chip, instance, server or link."""
        return tuple(item for item in self.disagreements if name in item.about)


def load_catalogue(root: Traversable | None = None) -> Catalogue:
    """Read and check the data files, by default those that lie in the package.

    Args:
        root: a folder of ``.toml`` files to read instead.

    Raises:
        CatalogueError: if a file breaks a rule; file and key are named.
    """
    folder = root if root is not None else resources.files("twintrack.hardware").joinpath("data")
    files: dict[str, str] = {}
    for entry in sorted(folder.iterdir(), key=lambda item: item.name):
        if entry.name.endswith(".toml"):
            try:
                files[entry.name] = entry.read_bytes().decode("utf-8")
            except UnicodeDecodeError as error:
                raise CatalogueError(
                    "UTF-8 text", found=str(error), where=entry.name, remedy="correct the data file"
                ) from error
    return parse_catalogue(files)


def parse_catalogue(files: Mapping[str, str]) -> Catalogue:
    """The catalogue that these texts, by file name, describe.

    Raises:
        CatalogueError: if a file breaks a rule; file and key are named.
    """
    records = read_records(files)
    return Catalogue(
        sources=MappingProxyType(records.sources),
        chips=MappingProxyType(records.chips),
        links=MappingProxyType(records.links),
        instances=MappingProxyType(records.instances),
        servers=MappingProxyType(records.servers),
        all_prices=tuple(records.prices),
        disagreements=tuple(records.disagreements),
        throughputs=tuple(records.throughputs),
        software=tuple(records.software),
        storage_prices=tuple(records.storage_prices),
    )


def _newest_first(price: Price) -> tuple[bool, int, str, tuple[str, ...]]:
    dates = parse_date(price.usd_per_hour.date or "")
    return dates is None, -dates[1].toordinal() if dates else 0, price.model, price.regions


def _lookup(records: Mapping[str, T], name: str, what: str) -> T:
    found = records.get(name.strip().lower())
    if found is not None:
        return found
    raise CatalogueError(
        f"the name of a known {what}",
        found=repr(name),
        where="hardware catalogue",
        remedy=_suggest(name.strip().lower(), records) or "'twintrack hardware list' shows all names",
    )


def _suggest(name: str, known: Iterable[str]) -> str:
    """Names that begin with ``name`` (``a100`` is two chips) come before one that merely looks like it."""
    longer = [candidate for candidate in known if name and candidate.startswith(name)]
    if longer:
        return f"did you mean {' or '.join(repr(candidate) for candidate in longer)}?"
    return nearest(name, known)
