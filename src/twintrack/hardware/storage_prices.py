"""Dated observations of what it costs to keep a byte for a month and to move one away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from twintrack.hardware.records import Detail, Source
from twintrack.hardware.table import Table
from twintrack.quantity import Quantity

__all__ = ["StorageItem", "StoragePrice", "read_storage_price"]


class StorageItem(StrEnum):
    """What is paid for. A GB of these prices is what the provider counts; AWS documents it as 2**30 bytes."""

    S3_STANDARD = "s3_standard"
    EBS_GP3 = "ebs_gp3"
    TRANSFER_INTERNET = "transfer_internet"
    """Out of a region to the internet."""
    TRANSFER_REGION = "transfer_region"
    """From one region to another."""
    TRANSFER_ZONE = "transfer_zone"
    """Between availability zones of a region, each way."""

    @property
    def unit(self) -> str:
        """Unit of the price: ``USD/GB-month`` for what is kept, ``USD/GB`` for what is moved."""
        return "USD/GB-month" if self in (StorageItem.S3_STANDARD, StorageItem.EBS_GP3) else "USD/GB"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragePrice:
    """One dated observation. ``usd.date`` is the day, month or year it was observed.

    Args:
        item: what is paid for.
        regions: AWS region codes that it holds for.
        usd: in ``item.unit``; its conditions name the tier.
        detail: status, source, note.
    """

    item: StorageItem
    regions: tuple[str, ...]
    usd: Quantity
    detail: Detail


def read_storage_price(table: Table, sources: Mapping[str, Source]) -> StoragePrice:
    """One row of a data file.

    Raises:
        CatalogueError: for a missing or unknown key, a unit that is not the item's; file and key are named.
    """
    item = StorageItem(table.choice("item", StorageItem))
    usd, detail = table.figure("usd", item.unit, sources, observed=True)
    row = StoragePrice(item=item, regions=table.texts("regions"), usd=usd, detail=detail)
    table.close()
    return row
