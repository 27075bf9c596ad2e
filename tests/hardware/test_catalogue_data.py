"""The figures in the package: each says where it comes from, and figures of one table agree with one another."""

from __future__ import annotations

import tomllib
from dataclasses import FrozenInstanceError
from importlib import resources

import pytest

from twintrack.hardware import Machine, PriceModel, Status, in_base_unit, load_catalogue
from twintrack.hardware.table import parse_date
from twintrack.quantity import Provenance

CATALOGUE = load_catalogue()
RECORDS = [
    *CATALOGUE.chips.values(),
    *CATALOGUE.links.values(),
    *CATALOGUE.instances.values(),
    *CATALOGUE.servers.values(),
]
MACHINES = [record for record in RECORDS if isinstance(record, Machine)]
DATA = resources.files("twintrack.hardware").joinpath("data")


def _name(record: object) -> str:
    return record.name


@pytest.mark.parametrize("record", RECORDS, ids=_name)
def test_every_figure_has_unit_kind_source_and_status(record):
    for name, label, quantity in record.figures():
        detail = record.details[name]
        assert quantity.unit, name
        assert label, name
        assert quantity.source, name
        assert quantity.kind in (Provenance.PUBLISHED, Provenance.DERIVED, Provenance.UNKNOWN), name
        if quantity.kind is Provenance.PUBLISHED:
            assert quantity.source == detail.source.where, name
            assert quantity.date == detail.source.date, name
            assert detail.status in (Status.DOC, Status.THIRD_PARTY, Status.DRIVER, Status.IMAGE), name


def test_the_figures_are_those_of_the_data_files_and_each_line_there_has_unit_and_source():
    """Read with a second reader that knows nothing of the records."""
    seen = 0
    for file in DATA.iterdir():
        if not file.name.endswith(".toml"):
            continue
        content = tomllib.loads(file.read_text(encoding="utf-8"))
        for kind, group in (
            ("chip", "chips"),
            ("link", "links"),
            ("instance", "instances"),
            ("server", "servers"),
        ):
            for name, table in content.get(kind, {}).items():
                record = getattr(CATALOGUE, group)[name]
                for key, figure in table.items():
                    if not isinstance(figure, dict):
                        continue
                    seen += 1
                    quantity = getattr(record, key)
                    if "unknown" in figure:
                        assert (quantity.value, quantity.source) == (None, figure["unknown"])
                        continue
                    assert (quantity.value, quantity.unit) == (figure["value"], figure["unit"])
                    assert CATALOGUE.sources[figure["source"]].where in quantity.source
    assert seen > 200


def test_what_the_issue_names_is_there():
    assert {"trainium1", "trainium2", "trainium3", "h100", "h200", "b200"} <= set(CATALOGUE.chips)
    assert set(CATALOGUE.instances) == {
        "trn1.2xlarge", "trn1.32xlarge", "trn1n.32xlarge", "trn2.3xlarge", "trn2.48xlarge", "trn2u.48xlarge",
        "p4d.24xlarge", "p4de.24xlarge", "p5.4xlarge", "p5.48xlarge", "p5e.48xlarge", "p5en.48xlarge",
        "p6-b200.48xlarge",
    }  # fmt: skip
    assert set(CATALOGUE.servers) == {"trn2-ultraserver", "trn3-ultraserver-gen1", "trn3-ultraserver-gen2"}


@pytest.mark.parametrize("machine", MACHINES, ids=_name)
@pytest.mark.parametrize(
    ("whole", "each", "tolerance"),
    [
        ("hbm_capacity_gib", "hbm_capacity_gib", 0),
        ("hbm_bandwidth_tb_per_s", "hbm_bandwidth_tb_per_s", 1e-9),
        ("tensor_bf16_pflops", "tensor_bf16_tflops", 0.005),
        ("tensor_fp8_pflops", "tensor_fp8_tflops", 0.005),
        ("tensor_mxfp8_pflops", "tensor_mxfp8_tflops", 0.005),
        ("tensor_fp32_pflops", "tensor_fp32_tflops", 0.005),
        ("tensor_sparse_pflops", "tensor_sparse_tflops", 0.005),
    ],
)
def test_a_machine_is_its_chips_within_the_rounding_of_its_table(machine, whole, each, tolerance):
    total, part = getattr(machine, whole), getattr(CATALOGUE.chip(machine.chip), each)
    if total is None or part is None or not (total.known and part.known):
        assert (total is None or not total.known) == (part is None or not part.known)
        return
    expected = machine.chip_count.value * in_base_unit(part).value
    assert in_base_unit(total).value == pytest.approx(expected, rel=tolerance)


def test_a_server_is_its_members():
    for server in CATALOGUE.servers.values():
        if not server.member:
            continue
        member, count = CATALOGUE.instance(server.member), server.member_count.value
        for name in ("chip_count", "vcpus", "host_memory_gib", "hbm_capacity_gib", "efa_gbps"):
            assert getattr(server, name).value == count * getattr(member, name).value, name


def test_trn2_memory_bandwidth_is_46_4_and_20_8_is_its_fp8_peak():
    """A widely read article gives 20.8 TB/s: that number is the instance's FP8 peak in PFLOPS."""
    for name in ("trn2.48xlarge", "trn2u.48xlarge"):
        instance = CATALOGUE.instance(name)
        assert (instance.hbm_bandwidth_tb_per_s.value, instance.hbm_bandwidth_tb_per_s.unit) == (46.4, "TB/s")
        assert (instance.tensor_fp8_pflops.value, instance.tensor_fp8_pflops.unit) == (20.8, "PFLOPS")
        assert 16 * CATALOGUE.chip("trainium2").hbm_bandwidth_tb_per_s.value == pytest.approx(46.4)

        topics = {item.key: item for item in CATALOGUE.disagreements_about(name)}
        settled = topics["trn2-instance-hbm-bandwidth"]
        assert settled.used.value == "46.4 TB/s"
        assert {claim.value for claim in settled.claims} == {"46.4 TB/s", "20.8 TB/s"}
        assert "PFLOPS" in settled.reason


def test_mfu_denominators_of_trainium2_all_stand():
    item = next(item for item in CATALOGUE.disagreements if item.key == "trn2-mfu-denominator")

    assert [claim.value.split()[0] for claim in item.claims] == ["667", "655", "632", "629"]
    assert item.used.value.startswith("629")
    chip = CATALOGUE.chip("trainium2")
    assert chip.peak_flop_per_s("bf16").value == pytest.approx(629e12, rel=1e-3)
    assert chip.tensor_bf16_tflops.value == 667


def test_what_data_files_derive_is_the_arithmetic_that_they_name():
    core = 128 * 128 * 2 * 2.4e9
    trn2 = CATALOGUE.chip("trainium2")
    assert trn2.core_tensor_bf16_tflops.value * 1e12 == pytest.approx(core, rel=1e-3)
    assert trn2.core_tensor_fp8_tflops.value == 2 * trn2.core_tensor_bf16_tflops.value
    assert trn2.core_tensor_fp32_tflops.value == trn2.core_tensor_bf16_tflops.value / 4
    for link in CATALOGUE.links.values():
        if link.per_link_gb_per_s:
            assert link.per_link_gb_per_s.kind is Provenance.DERIVED
            product = link.per_link_gb_per_s.value * link.links_per_chip.value
            assert product == link.per_chip_gb_per_s.value
    b200 = CATALOGUE.chip("b200")
    assert b200.hbm_bandwidth_tb_per_s.value == pytest.approx(7680 / 8 * 3996e6 * 2 / 1e12, abs=5e-4)
    assert b200.hbm_capacity_gib.value * 1024 == 183_359


def test_links_of_chips_and_machines_agree():
    trn2, inside, outside = (
        CATALOGUE.chip("trainium2"),
        CATALOGUE.link("neuronlink-v3"),
        CATALOGUE.link("neuronlink-v3-z"),
    )
    assert (
        trn2.link_bandwidth_gb_per_s.value == inside.per_chip_gb_per_s.value + outside.per_chip_gb_per_s.value
    )
    for chip in CATALOGUE.chips.values():
        if chip.vendor == "NVIDIA":
            assert chip.link_bandwidth_gb_per_s.value == CATALOGUE.link(chip.link).per_chip_gb_per_s.value
    for machine in MACHINES:
        if machine.link:
            assert machine.link == CATALOGUE.chip(machine.chip).link
        assert bool(machine.link) == (machine.chip_count.value > 1)


def test_a_single_chip_instance_costs_per_chip_what_a_full_one_does():
    day = "2026-07-22"
    newest = {
        (price.machine, region): price.per_chip_usd_per_hour.value
        for price in CATALOGUE.all_prices
        if price.model is PriceModel.CAPACITY_BLOCK and price.usd_per_hour.date == day
        for region in price.regions
    }
    assert newest["trn2.3xlarge", "sa-east-1"] == pytest.approx(
        newest["trn2.48xlarge", "us-east-2"], rel=1e-3
    )
    assert newest["p5.4xlarge", "us-east-1"] == newest["p5.48xlarge", "us-east-1"]


@pytest.mark.parametrize("price", CATALOGUE.all_prices, ids=lambda price: f"{price.machine} {price.model}")
def test_every_price_is_dated_or_says_why_it_is_unknown(price):
    if price.usd_per_hour.known:
        assert price.usd_per_hour.kind is Provenance.PUBLISHED
        assert parse_date(price.usd_per_hour.date)
        assert price.regions or price.detail.note
        chips = {machine.name: machine for machine in MACHINES}[price.machine].chip_count.value
        assert price.per_chip_usd_per_hour.value * chips == pytest.approx(price.usd_per_hour.value)
    else:
        assert "found" in price.usd_per_hour.source or "lists" in price.usd_per_hour.source


def test_no_observation_is_there_twice():
    keys = [
        (price.machine, price.model, region, price.usd_per_hour.date, price.detail.source)
        for price in CATALOGUE.all_prices
        for region in (price.regions or ("",))
    ]
    assert len(keys) == len(set(keys))


def test_several_dated_observations_of_one_instance_stand_side_by_side():
    prices = [price for price in CATALOGUE.prices("p5.48xlarge") if price.model is PriceModel.CAPACITY_BLOCK]

    assert {price.usd_per_hour.date for price in prices} >= {"2024-12", "2026-01-31", "2026-07-22"}
    dates = [parse_date(price.usd_per_hour.date)[1] for price in prices]
    assert dates == sorted(dates, reverse=True)


@pytest.mark.parametrize("item", CATALOGUE.disagreements, ids=lambda item: item.key)
def test_every_disagreement_keeps_all_claims_and_says_which_is_used_and_why(item):
    assert item.about
    assert item.used in item.claims
    assert len({claim.value for claim in item.claims}) > 1
    assert len(item.reason) > 20
    for name in item.about:
        assert item in CATALOGUE.disagreements_about(CATALOGUE.find(name).name)


def test_every_source_is_used():
    used = {price.detail.source for price in CATALOGUE.all_prices}
    used |= {claim.source for item in CATALOGUE.disagreements for claim in item.claims}
    used |= {detail.source for record in RECORDS for detail in record.details.values()}
    used |= {row.detail.source for row in (*CATALOGUE.throughputs, *CATALOGUE.storage_prices)}
    used |= {fact.source for fact in CATALOGUE.software}

    assert {source.key for source in CATALOGUE.sources.values() if source not in used} == set()


def test_the_data_files_are_part_of_the_package():
    """Found by the import system where the package lies, so a wheel that has the package has them."""
    names = {entry.name for entry in DATA.iterdir() if entry.is_file()}

    assert {"sources.toml", "trainium.toml", "nvidia.toml", "machines.toml", "links.toml"} <= names
    assert {"prices.toml", "disagreements.toml"} <= names


def test_the_catalogue_cannot_be_changed():
    chip = CATALOGUE.chip("h100")
    with pytest.raises(FrozenInstanceError):
        chip.vendor = "other"
    with pytest.raises(TypeError):
        CATALOGUE.chips["other"] = chip
    with pytest.raises(TypeError):
        chip.details["power_w"] = None
