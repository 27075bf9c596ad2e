"""The typed, frozen records of the catalogue.

A record's figures are ``Quantity`` fields with the metadata of ``figure``: the unit stands in the field name,
in the metadata and in the quantity, and the reader of the data files refuses a figure in another unit.
``None`` means that a figure does not apply (a GPU has no SBUF); a figure that applies but that nobody
published is ``Quantity.unknown`` with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum

from twintrack.quantity import Quantity

__all__ = [
    "Claim",
    "Detail",
    "Disagreement",
    "Price",
    "PriceModel",
    "Record",
    "Source",
    "Status",
    "figure",
]


class Status(StrEnum):
    """How a figure was published."""

    DOC = "doc"
    """Stated by the vendor's documentation or the vendor's repositories."""
    THIRD_PARTY = "third_party"
    """Stated by somebody else; lower trust."""
    DRIVER = "driver"
    """Read from driver source or from what a driver reports; the meaning of a constant may be inferred."""
    IMAGE = "image"
    """Read from a figure or a screenshot in the vendor's documentation."""
    DERIVED = "derived"
    """Computed from stated figures by the formula that the figure names."""
    UNKNOWN = "unknown"
    """Looked for and not found."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where figures stand.

    Args:
        key: the name by which data files refer to it.
        where: document, repository path or address that was read.
        date: when it was published or observed; ``None`` where that is not known.
        status: how much it is worth.
    """

    key: str
    where: str
    date: str | None
    status: Status


@dataclass(frozen=True, slots=True)
class Detail:
    """What stands beside a figure.

    Args:
        status: how it was published.
        source: where it stands; ``None`` where it is computed here from other figures of the catalogue.
        note: a remark.
        as_written: the source's own wording where it uses another unit.
        formula: how a data file derives the figure from what the source states.
    """

    status: Status
    source: Source | None = None
    note: str = ""
    as_written: str = ""
    formula: str = ""


def figure(unit: str, label: str) -> Mapping[str, str]:
    """Metadata of a field that holds a figure in ``unit``; a field with default ``None`` may not apply."""
    return {"unit": unit, "label": label}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Base of the records that have figures."""

    name: str
    title: str
    note: str = ""
    details: Mapping[str, Detail] = field(default_factory=dict)
    """Status, source and note of each figure, by field name."""

    def figures(self) -> Iterator[tuple[str, str, Quantity]]:
        """Field name, label and figure of every figure that applies, in the order of the record."""
        for item in fields(self):
            value = getattr(self, item.name)
            if "unit" in item.metadata and value is not None:
                yield item.name, item.metadata["label"], value


class PriceModel(StrEnum):
    """How an instance is bought."""

    CAPACITY_BLOCK = "capacity_block"
    ON_DEMAND = "on_demand"
    SPOT = "spot"
    RESERVED_3Y = "reserved_3y"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """One dated observation of a price. ``usd_per_hour.date`` is the day, month or year it was observed.

    Args:
        machine: instance or server.
        model: how it is bought.
        regions: AWS region codes that it holds for; empty where the source names none.
        usd_per_hour: USD per hour of the whole machine, or unknown with the reason.
        per_chip_usd_per_hour: the same divided by the machine's chips, derived.
        detail: status, source, note.
    """

    machine: str
    model: PriceModel
    regions: tuple[str, ...]
    usd_per_hour: Quantity
    per_chip_usd_per_hour: Quantity
    detail: Detail


@dataclass(frozen=True, slots=True)
class Claim:
    """What one source says."""

    value: str
    source: Source
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """Sources that differ on one figure. All stand; the catalogue follows the claim ``used``."""

    key: str
    topic: str
    about: tuple[str, ...]
    """Names of the chips, instances, servers and links concerned."""
    claims: tuple[Claim, ...]
    used: Claim
    reason: str
