"""Prices of storage and transfer: dated, in the unit of their item, for a named region."""

from __future__ import annotations

from importlib import resources

import pytest

from twintrack.errors import CatalogueError
from twintrack.hardware import StorageItem, load_catalogue
from twintrack.hardware.catalogue import parse_catalogue
from twintrack.hardware.table import parse_date

ROWS = load_catalogue().storage_prices
FILES = {
    entry.name: entry.read_text(encoding="utf-8")
    for entry in resources.files("twintrack.hardware").joinpath("data").iterdir()
    if entry.name.endswith(".toml")
}


def test_every_price_has_date_region_and_the_unit_of_its_item():
    assert {row.item for row in ROWS} == set(StorageItem)
    for row in ROWS:
        assert row.usd.known
        assert parse_date(row.usd.date)
        assert row.regions
        assert row.usd.unit == ("USD/GB" if row.item.value.startswith("transfer") else "USD/GB-month")


def test_a_price_in_the_other_unit_and_one_without_a_date_are_refused():
    text = FILES["storage_prices.toml"]

    with pytest.raises(CatalogueError, match="USD/GB-month"):
        parse_catalogue({**FILES, "storage_prices.toml": text.replace('"USD/GB-month"', '"USD/GB"', 1)})
    with pytest.raises(CatalogueError, match="observed"):
        parse_catalogue({**FILES, "storage_prices.toml": text.replace(', observed = "2026-04-09"', "", 1)})
    with pytest.raises(CatalogueError, match="regions"):
        parse_catalogue({**FILES, "storage_prices.toml": text.replace('regions = ["us-east-1"]\n', "", 1)})
