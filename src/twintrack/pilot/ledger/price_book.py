"""Which price holds: of the files in their order, then of the catalogue; converted where a dated rate is given.

A price is used if it is of the thing that is paid for, of the job's region and way of buying or of any, and was
observed by the day of the ledger. The first file that has one decides; in it the most specific row does, then the
newest. Another region's price never stands in. What is missing is unknown, with the reason; what is older than the
job's ``costs.oldest_price_days`` is used and reported as stale.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from twintrack.errors import CatalogueError
from twintrack.hardware import Catalogue
from twintrack.hardware.storage_prices import StorageItem, StoragePrice
from twintrack.hardware.table import parse_date
from twintrack.job.records import Costs
from twintrack.pilot.ledger.prices import PriceFile, PriceRow, RateRow, What
from twintrack.pilot.ledger.records import Input
from twintrack.quantity import Provenance, Quantity, combine

__all__ = ["PriceBook", "Priced"]

_KEPT = StorageItem.S3_STANDARD
"""What the catalogue's price of storage is taken of: caches and checkpoints are kept in object storage."""


@dataclass(frozen=True, slots=True)
class Priced:
    """A price in the ledger's currency, and what it was made of."""

    value: Quantity
    parts: tuple[Input, ...] = ()
    """Price as it was observed and exchange rate, where the two currencies differ."""
    stale: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The price, then what it was made of."""
        return Input("price", self.value), *self.parts


class PriceBook:
    """Prices for one job on one day.

    Args:
        files: in the order in which they decide.
        catalogue: comes last; without ``costs.region`` it is not asked.
        costs: region, way of buying, currency and age from which a price is stale.
        on: day of the ledger; later observations do not exist for it.
    """

    def __init__(
        self, files: Sequence[PriceFile], catalogue: Catalogue, costs: Costs, on: datetime.date
    ) -> None:
        self._files = tuple(files)
        self._catalogue = catalogue
        self._costs = costs
        self._on = on

    @property
    def currency(self) -> str:
        """Of the ledger."""
        return self._costs.currency

    def machine(self, name: str) -> Priced:
        """Price of an instance per hour."""
        found = self._in_files(
            "machine", lambda row: row.name is not None and row.name.lower() == name.lower()
        )
        return self._priced(found or self._machine_of_catalogue(name), "h")

    def storage(self) -> Priced:
        """Price of a GB or GiB kept for a month."""
        return self._priced(self._in_files("storage") or self._storage_of_catalogue(), "GB-month")

    def transfer(self) -> Priced:
        """Price of a GB or GiB moved; of price files alone, since the catalogue's depend on where to."""
        found = self._in_files("transfer")
        reason = "no price file has a price of transfer; the catalogue's depend on where to"
        return self._priced(found or self._missing("GB", reason), "GB")

    def operating(self) -> Priced:
        """Price of an hour of work."""
        found = self._in_files("operating")
        return self._priced(found or self._missing("h", "no price file has a price of operating time"), "h")

    def _in_files(self, what: What, wanted: Callable[[PriceRow], bool] = lambda _: True) -> Quantity | None:
        for file in self._files:
            rows = [row for row in file.prices if row.what == what and wanted(row) and self._holds(row)]
            if rows:
                return _chosen(file, rows)
        return None

    def _holds(self, row: PriceRow) -> bool:
        costs = self._costs
        return (
            row.observed <= self._on
            and row.region in (None, costs.region)
            and row.model in (None, costs.model)
        )

    def _machine_of_catalogue(self, name: str) -> Quantity:
        if self._costs.region is None:
            reason = f"no price file has a price of {name} that holds, and the job names no costs.region"
            return self._missing("h", reason)
        try:
            row = self._catalogue.price(name, self._costs.model, self._costs.region, self._on)
        except CatalogueError as error:
            return self._missing("h", f"no price of {name}: required {error.required}, found {error.found}")
        return row.usd_per_hour

    def _storage_of_catalogue(self) -> Quantity:
        region = self._costs.region
        rows = [row for row in self._catalogue.storage_prices if row.item is _KEPT]
        rows = [row for row in rows if region in row.regions and _seen(row.usd) <= self._on and row.usd.known]
        if rows:
            found = max(rows, key=_newest).usd
            note = (
                f"{found.conditions}; a GB of this price is 2^30 bytes"
                if found.conditions
                else "a GB is 2^30 bytes"
            )
            return replace(found, unit="USD/GiB-month", conditions=note)
        what = (
            f"the catalogue has none in {region} by {self._on}" if region else "the job names no costs.region"
        )
        return self._missing("GB-month", f"no price file has a price of storage that holds, and {what}")

    def _missing(self, per: str, reason: str) -> Quantity:
        return Quantity.unknown(f"{self.currency}/{per}", reason)

    def _priced(self, price: Quantity, per: str) -> Priced:
        if not price.known:
            return Priced(
                Quantity.unknown(f"{self.currency}/{price.unit.partition('/')[2] or per}", price.source)
            )
        stale = tuple(self._stale([price]))
        currency, _, per = price.unit.partition("/")
        if currency == self.currency:
            return Priced(price, (), stale)
        unit = f"{self.currency}/{per}"
        rate = self._rate(currency)
        if not rate.known:
            return Priced(Quantity.unknown(unit, rate.source), (Input("price as observed", price),), stale)
        parts = (Input("price as observed", price), Input("exchange rate", rate))
        value = _convert(price, rate, unit)
        return Priced(value, parts, (*stale, *self._stale([rate])))

    def _rate(self, currency: str) -> Quantity:
        """The rate between a currency and the ledger's, in the direction in which a file says it."""
        unit = f"{self.currency}/{currency}"
        pair = {currency, self.currency}
        for file in self._files:
            rows = [
                r
                for r in file.rates
                if {r.source_currency, r.target_currency} == pair and r.observed <= self._on
            ]
            if rows:
                return _rate_of(file, max(rows, key=lambda row: row.observed))
        reason = f"a price is in {currency}, the ledger in {self.currency}, and no price file has a rate between them"
        return Quantity.unknown(unit, reason)

    def _stale(self, figures: Iterable[Quantity]) -> Iterable[str]:
        for one in figures:
            age = (self._on - _seen(one)).days
            if age > self._costs.oldest_price_days:
                yield (
                    f"{one.value:,} {one.unit}, observed {one.date}, is {age} days old, more than "
                    f"{self._costs.oldest_price_days} ({one.source})"
                )


def _chosen(file: PriceFile, rows: Sequence[PriceRow]) -> Quantity:
    """The most specific row, then the newest; two that say different things say nothing."""

    def rank(row: PriceRow) -> tuple[bool, bool, datetime.date]:
        return row.region is not None, row.model is not None, row.observed

    names = sorted({row.name or "one without a name" for row in rows})
    if len(names) > 1:
        reason = f"{file.name} has prices of {' and '.join(names)} for {rows[0].what}; keep one of them"
        return Quantity.unknown(rows[0].unit, reason)
    best = max(rows, key=rank)
    rivals = {(row.value, row.unit) for row in rows if rank(row) == rank(best)}
    if len(rivals) > 1:
        told = " and ".join(f"{value:g} {unit}" for value, unit in sorted(rivals))
        reason = (
            f"{file.name} has {told} for one {best.what}, both observed {best.observed}; keep one of them"
        )
        return Quantity.unknown(best.unit, reason)
    place = ", ".join(part for part in (best.name, best.region, best.model) if part)
    return Quantity(
        best.value,
        best.unit,
        Provenance.PUBLISHED,
        f"{file.name}: {best.source}",
        date=best.observed.isoformat(),
        conditions=place,
    )


def _rate_of(file: PriceFile, row: RateRow) -> Quantity:
    unit, date = f"{row.target_currency}/{row.source_currency}", row.observed.isoformat()
    return Quantity(row.value, unit, Provenance.PUBLISHED, f"{file.name}: {row.source}", date=date)


def _convert(price: Quantity, rate: Quantity, unit: str) -> Quantity:
    """A price in another currency; the rate may be given in either direction."""
    if rate.unit == f"{unit.partition('/')[0]}/{price.unit.partition('/')[0]}":
        return combine("price as observed × exchange rate", unit, [price, rate], lambda p, r: p * r)
    return combine("price as observed / exchange rate", unit, [price, rate], lambda p, r: p / r)


def _seen(figure: Quantity) -> datetime.date:
    """Last day on which a figure may have been observed."""
    dates = parse_date(figure.date or "")
    return dates[1] if dates else datetime.date.max


def _newest(row: StoragePrice) -> tuple[datetime.date, str]:
    return _seen(row.usd), row.usd.source
