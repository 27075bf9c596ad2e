"""Price files are checked key by key, and of several prices the right one decides, or none."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_runs import price_text

from twintrack.errors import CatalogueError, StorageError, TwintrackError
from twintrack.hardware import load_catalogue
from twintrack.job.records import Costs
from twintrack.pilot.ledger.price_book import PriceBook
from twintrack.pilot.ledger.prices import read_price_file
from twintrack.quantity import Provenance
from twintrack.storage import LocalFileSystem

ON = datetime.date(2026, 11, 30)
FS = LocalFileSystem()
RATE = '[[rate]]\nfrom = "EUR"\nto = "USD"\nvalue = 1.25\nsource = "bank"\nobserved = 2026-10-02\n'


def read(folder: Path, text: str, name: str = "prices.toml"):
    path = folder / name
    path.write_text(text)
    return read_price_file(path, FS)


def book(folder: Path, *texts: str, on: datetime.date = ON, **costs: object) -> PriceBook:
    files = [read(folder, text, f"prices-{index}.toml") for index, text in enumerate(texts)]
    return PriceBook(files, load_catalogue(), Costs.model_validate({"region": "us-east-2", **costs}), on)


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        (price_text(unit="USD/GB"), 3, "price[0].unit: required USD/h or another currency, for machine, found"),
        (price_text(unit="dollars/h"), 3, "price[0].unit: required USD/h"),
        (price_text(value=-1.0), 6, "price[0].value: required greater than or equal to 0, found -1.0"),
        (price_text().replace("36.0", "nan"), 6, "price[0].value: required a finite number"),
        (price_text().replace("36.0", '"36"'), 6, "price[0].value: required a valid number, found the text '36'"),
        (price_text(observed='"last week"'), 7, "price[0].observed: required a day, as in 2026-10-02, found the text"),
        (price_text().replace("observed = 2026-10-02", ""), 1, "price[0].observed: required the key 'observed'"),
        (price_text().replace('source = "an offer"', ""), 1, "price[0].source: required the key 'source'"),
        (price_text().replace('name = "box.large"', ""), 1, "price[0].name: required the name of the instance"),
        (price_text(where="us-east-2"), 6, "price[0].where: required a key of a price file"),
        (price_text("storage", unit="USD/GB-month", model="spot"), 5, "price[0].model: required no model, for storage"),
        (price_text(regiom="us-east-2"), 6, "did you mean 'region'?"),
        (RATE.replace("1.25", "0"), 4, "rate[0].value: required greater than 0"),
        (RATE.replace("EUR", "euro"), 2, "rate[0].from: "),
        ("[[prices]]\n", 1, "did you mean 'price'?"),
        ("[[price]\n", 1, "required TOML"),
        ("price = 3\n", 1, "price: "),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_with_file_line_and_key(tmp_path, text, line, told):
    with pytest.raises(CatalogueError) as caught:
        read(tmp_path, text)

    assert f"prices.toml:{line}: " in str(caught.value)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_price_file_that_is_not_there_is_told_in_one_line(tmp_path):
    with pytest.raises(StorageError, match=r"prices\.toml"):
        read_price_file(tmp_path / "prices.toml", FS)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
@settings(max_examples=150)
def test_no_bytes_whatever_end_in_anything_but_a_file_or_one_line(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "fuzzed.toml"
    path.write_bytes(data)
    told = ""
    try:
        read_price_file(path, FS)
    except TwintrackError as error:
        told = str(error)
    assert "\n" not in told


def test_the_first_file_that_has_a_price_decides_and_then_the_catalogue(tmp_path):
    trn2 = {"name": "trn2.48xlarge"}
    both = book(tmp_path, price_text(value=30.0, **trn2), price_text(value=20.0, **trn2))
    second = book(tmp_path, price_text(value=99.0), price_text(value=20.0, **trn2))
    none = book(tmp_path, price_text(value=99.0))

    assert both.machine("trn2.48xlarge").value.value == 30.0
    assert second.machine("TRN2.48xlarge").value.value == 20.0
    found = none.machine("trn2.48xlarge").value
    assert (found.value, found.kind, found.date) == (35.7608, Provenance.PUBLISHED, "2026-07-22")


def test_a_price_of_the_region_and_way_of_buying_comes_before_one_of_any_and_a_newer_before_an_older(
    tmp_path,
):
    any_place = price_text(value=1.0)
    here = price_text(value=2.0, region="us-east-2")
    here_so = price_text(value=3.0, region="us-east-2", model="capacity_block", observed="2026-01-01")
    newer = price_text(value=4.0, region="us-east-2", model="capacity_block", observed="2026-02-01")

    def price(*rows: str) -> float | int | None:
        return book(tmp_path, "".join(rows)).machine("box.large").value.value

    assert price(any_place) == 1.0
    assert price(here, any_place) == 2.0
    assert price(here_so, any_place, here) == 3.0
    assert price(newer, here_so) == price(here_so, newer) == 4.0


@pytest.mark.parametrize(
    "row",
    [
        price_text(region="us-east-1"),
        price_text(model="spot"),
        price_text(observed="2026-12-01"),
        price_text(name="box.small"),
    ],
)
def test_another_regions_models_machines_or_later_price_never_stands_in(tmp_path, row):
    found = book(tmp_path, row).machine("box.large").value

    assert not found.known
    assert "no price of box.large" in found.source


def test_a_neighbour_regions_price_in_the_catalogue_never_stands_in(tmp_path):
    """The catalogue has trn2.48xlarge in us-east-2 alone, and storage in us-east-1 alone."""
    elsewhere = book(tmp_path, region="us-west-2")

    assert not elsewhere.machine("trn2.48xlarge").value.known
    assert "us-west-2" in elsewhere.machine("trn2.48xlarge").value.source
    assert not elsewhere.storage().value.known
    assert book(tmp_path, region="us-east-1").storage().value.value == 0.023
    assert "names no costs.region" in book(tmp_path, region=None).machine("trn2.48xlarge").value.source


def test_two_prices_of_one_day_say_nothing(tmp_path):
    found = book(tmp_path, price_text(value=1.0) + price_text(value=2.0)).machine("box.large").value

    assert not found.known
    assert "1 USD/h and 2 USD/h" in found.source


def test_two_kinds_of_storage_say_nothing(tmp_path):
    rows = [
        price_text("storage", value, "USD/GB-month", name=name) for name, value in (("s3", 1.0), ("ebs", 2.0))
    ]
    found = book(tmp_path, "".join(rows)).storage().value

    assert not found.known
    assert "ebs and s3" in found.source


@pytest.mark.parametrize(("days", "stale"), [(365, 0), (366, 1), (731, 1)])
def test_a_price_older_than_the_job_allows_is_used_and_said_to_be_stale(tmp_path, days, stale):
    seen = (ON - datetime.timedelta(days=days)).isoformat()
    found = book(tmp_path, price_text(observed=seen), oldest_price_days=365).machine("box.large")

    assert found.value.value == 36.0
    assert len(found.stale) == stale
    assert all(f"observed {seen}, is {days} days old" in text for text in found.stale)


def test_a_price_in_another_currency_needs_a_dated_rate(tmp_path):
    euros = price_text(unit="EUR/h")
    without = book(tmp_path, euros).machine("box.large")
    there = book(tmp_path, euros + RATE).machine("box.large")
    back = book(
        tmp_path, euros, RATE.replace("EUR", "XXX").replace("USD", "EUR").replace("XXX", "USD")
    ).machine("box.large")
    later = book(tmp_path, euros + RATE.replace("2026-10-02", "2026-12-24")).machine("box.large")

    assert not without.value.known
    assert not later.value.known
    assert "a price is in EUR, the ledger in USD" in without.value.source
    assert (there.value.value, there.value.unit, there.value.rests_on) == (
        45.0,
        "USD/h",
        Provenance.PUBLISHED,
    )
    assert [one.name for one in there.inputs] == ["price", "price as observed", "exchange rate"]
    assert (there.parts[0].value.value, there.parts[0].value.unit) == (36.0, "EUR/h")
    assert back.value.value == pytest.approx(36.0 / 1.25)


def test_an_old_rate_makes_a_fresh_price_stale(tmp_path):
    found = book(tmp_path, price_text(unit="EUR/h") + RATE.replace("2026", "2020")).machine("box.large")

    assert "1.25 USD/EUR, observed 2020-10-02" in found.stale[0]
