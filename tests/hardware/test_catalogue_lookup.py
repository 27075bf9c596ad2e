"""Lookups by name, logical cores, prices by region and day, units."""

from __future__ import annotations

import datetime
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twintrack.errors import CatalogueError
from twintrack.hardware import in_base_unit, load_catalogue
from twintrack.hardware.table import parse_date
from twintrack.hardware.units import BASE_UNITS
from twintrack.quantity import Provenance, Quantity

CATALOGUE = load_catalogue()


@pytest.mark.parametrize(
    ("look", "name", "offered"),
    [
        ("chip", "tranium2", "'trainium2'"),
        ("chip", "a100", "'a100-40gb' or 'a100-80gb'"),
        ("instance", "trn2.48xlrge", "'trn2.48xlarge'"),
        ("instance", "p5.48large", "'p5.48xlarge'"),
        ("server", "trn2-ultrserver", "'trn2-ultraserver'"),
        ("link", "neuronlink-3", "neuronlink-v3"),
        ("prices", "trn1.32xlage", "'trn1.32xlarge'"),
        ("find", "h20", "'h200'"),
    ],
)
def test_an_unknown_name_is_a_user_error_that_offers_the_nearest(look, name, offered):
    with pytest.raises(CatalogueError) as caught:
        getattr(CATALOGUE, look)(name)

    assert caught.value.exit_code == 2
    assert offered in str(caught.value)
    assert repr(name) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_name_unlike_any_other_points_to_the_list():
    with pytest.raises(CatalogueError, match="twintrack hardware list"):
        CATALOGUE.find("zzzz")
    with pytest.raises(CatalogueError, match="twintrack hardware list"):
        CATALOGUE.find("")


def test_lookups_ignore_case_and_spaces_around_the_name():
    assert CATALOGUE.chip(" H100 ") is CATALOGUE.chip("h100")


def test_a_kind_is_not_mistaken_for_another():
    with pytest.raises(CatalogueError):
        CATALOGUE.chip("trn2.48xlarge")
    with pytest.raises(CatalogueError):
        CATALOGUE.instance("trn2-ultraserver")


@pytest.mark.parametrize("lnc", [1, 2])
def test_logical_core_of_trainium2(lnc):
    """Independent arithmetic: 78.6 TFLOPS per core, 2.9 TB/s and 96 GiB over 8 cores, 28 and 2 MiB per core."""
    core = CATALOGUE.chip("trainium2").logical_core(lnc)

    assert core.cores.value == lnc
    assert core.tensor_peak("bf16").value == lnc * 78_600_000_000_000
    assert core.tensor_peak("fp8").value == lnc * 157_200_000_000_000
    assert core.tensor_peak("fp32").value == lnc * 19_650_000_000_000
    assert core.hbm_bandwidth_byte_per_s.value == Fraction(29, 10) * 10**12 * lnc / 8
    assert core.hbm_capacity_byte.value == 96 * 2**30 * lnc // 8
    assert core.sbuf_byte.value == lnc * 28 * 2**20
    assert core.psum_byte.value == lnc * 2 * 2**20
    units = {"FLOP/s": [*core.tensor_peak_flop_per_s.values()], "byte/s": [core.hbm_bandwidth_byte_per_s]}
    units["byte"] = [core.hbm_capacity_byte, core.sbuf_byte, core.psum_byte]
    for unit, quantities in units.items():
        for quantity in quantities:
            assert quantity.unit == unit
            assert f"per logical NeuronCore, LNC {lnc}" in quantity.conditions
    assert "dense, TensorE 128x128x2x2.4 GHz" in core.tensor_peak("bf16").conditions


def test_a_derived_figure_names_its_formula_and_the_weakest_kind_it_rests_on():
    core = CATALOGUE.chip("trainium2").logical_core(2)

    assert core.hbm_bandwidth_byte_per_s.kind is Provenance.DERIVED
    assert core.hbm_bandwidth_byte_per_s.rests_on is Provenance.PUBLISHED
    assert core.hbm_bandwidth_byte_per_s.source == "2 x 2.9 TB/s per chip / 8 cores"
    assert core.tensor_peak("bf16").source == "2 cores x 78.6 TFLOPS (core_tensor_bf16_tflops)"


def test_one_core_alone_keeps_the_published_kind_and_source():
    peak = CATALOGUE.chip("trainium2").logical_core(1).tensor_peak("bf16")

    assert peak.kind is Provenance.PUBLISHED
    assert "performance-bounds.md" in peak.source
    assert peak.date == "2026"


@pytest.mark.parametrize(("chip", "lnc"), [("trainium1", 2), ("trainium2", 0), ("trainium2", 4), ("h100", 1)])
def test_a_configuration_that_the_chip_does_not_have_is_refused(chip, lnc):
    with pytest.raises(CatalogueError, match=f"LNC {lnc}"):
        CATALOGUE.chip(chip).logical_core(lnc)


def test_an_unknown_peak_stays_unknown_and_an_unknown_format_is_refused():
    trn3 = CATALOGUE.chip("trainium3")
    assert not trn3.logical_core(2).tensor_peak("fp8").known
    assert not trn3.peak_flop_per_s("fp8").known
    assert trn3.logical_core(2).tensor_peak("mxfp8").value == 2 * 315 * 10**12
    assert not CATALOGUE.chip("a100-40gb").peak_flop_per_s("fp8").known
    with pytest.raises(CatalogueError, match="'bf16'"):
        trn3.logical_core(2).tensor_peak("bf61")
    with pytest.raises(CatalogueError, match="bf16, fp32, fp8"):
        CATALOGUE.chip("trainium2").peak_flop_per_s("int4")


def test_peak_of_a_gpu_is_the_published_dense_one():
    peak = CATALOGUE.chip("h100").peak_flop_per_s("bf16")

    assert (peak.value, peak.unit, peak.kind) == (989 * 10**12, "FLOP/s", Provenance.PUBLISHED)
    assert "dense" in peak.conditions


@pytest.mark.parametrize(
    ("region", "day", "usd"),
    [
        ("us-west-1", "2026-01-31", 39.33),
        ("us-west-1", "2026-07-21", 39.33),
        ("us-west-1", "2026-07-22", 41.528),
        ("us-east-1", "2026-02-15", 31.464),
        ("eu-north-1", "2027-01-01", 37.76),
    ],
)
def test_a_price_is_the_newest_observed_in_the_region_by_the_day(region, day, usd):
    price = CATALOGUE.price("p5.48xlarge", "capacity_block", region, datetime.date.fromisoformat(day))

    assert price.usd_per_hour.value == usd


@pytest.mark.parametrize(
    ("machine", "model", "region", "day", "message"),
    [
        ("p5.48xlarge", "capacity_block", "us-west-1", "2026-01-30", "no such observation"),
        ("p5.48xlarge", "capacity_block", "us-west-9", "2026-08-01", "no such observation"),
        ("trn2.48xlarge", "on_demand", "us-east-2", "2026-08-01", "no official on-demand price"),
        ("trn2.48xlarge", "capacity_blok", "us-east-2", "2026-08-01", "'capacity_block'"),
        ("p5e.48xlarge", "spot", "us-east-2", "2026-08-01", "no such observation"),
    ],
)
def test_a_price_that_nobody_observed_is_an_error_not_a_neighbours_price(
    machine, model, region, day, message
):
    with pytest.raises(CatalogueError, match=message):
        CATALOGUE.price(machine, model, region, datetime.date.fromisoformat(day))


@given(st.sampled_from(sorted(BASE_UNITS)), st.integers(1, 10**7), st.integers(0, 4))
def test_base_units_are_exact_products(unit, digits, places):
    """Compared with exact fractions: no binary rounding enters before the result is a float."""
    value = digits / 10**places
    exact = Fraction(str(value))
    size = {
        "TFLOPS": 10**12, "PFLOPS": 10**15, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "GB/s": 10**9,
        "TB/s": 10**12, "Gbps": Fraction(10**9, 8), "GHz": 10**9, "us": Fraction(1, 10**6), "W": 1, "USD/h": 1,
    }[unit]  # fmt: skip

    found = in_base_unit(Quantity(value, unit, Provenance.PUBLISHED, "test"))

    product = exact * size
    assert found.value == (product if product.denominator == 1 else float(product))
    assert found.kind is Provenance.PUBLISHED
    assert isinstance(found.value, int) == (product.denominator == 1)


def test_an_unknown_figure_changes_its_unit_and_stays_unknown():
    found = in_base_unit(Quantity.unknown("GiB", "nobody says"))

    assert (found.value, found.unit, found.source) == (None, "byte", "nobody says")


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("2026", "2026-01-01", "2026-12-31"),
        ("2024-02", "2024-02-01", "2024-02-29"),
        ("2026-12", "2026-12-01", "2026-12-31"),
        ("2026-07-22", "2026-07-22", "2026-07-22"),
    ],
)
def test_a_date_is_the_span_of_days_that_it_may_mean(text, first, last):
    assert parse_date(text) == (datetime.date.fromisoformat(first), datetime.date.fromisoformat(last))


@pytest.mark.parametrize(
    "text", ["", "26", "2026-13", "2026-00", "2026-02-30", "2026-7-2", "2026-07-00", "2026-07-22x", "0000"]
)
def test_what_is_no_date_is_none(text):
    assert parse_date(text) is None
