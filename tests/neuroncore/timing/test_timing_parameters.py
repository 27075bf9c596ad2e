"""Every parameter says where it comes from; what nobody published is unknown; few are fitted."""

from __future__ import annotations

from dataclasses import fields

import pytest

from twintrack.errors import KernelError
from twintrack.neuroncore.timing.parameters import Parameters, parameter_records, parameters_of

RECORDS = parameter_records()
MOST_FITTED = 6
NAMES = {one.name for one in fields(Parameters)} - {"chip"}


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_an_entry_has_source_unit_and_values_of_known_chips(record):
    assert record.source.startswith(("sdk:", "sdk@", "agentic:", "128 x"))
    assert record.unit
    assert set(record.values) <= {"trn1", "trn2", "trn3"}
    assert record.kind in ("published", "derived", "fitted", "chosen")


def test_entries_are_the_fields_once_each():
    names = [record.name for record in RECORDS]

    assert len(names) == len(set(names))
    assert set(names) == NAMES


def test_chosen_and_fitted_values_say_why():
    for record in RECORDS:
        if record.kind in ("chosen", "fitted") or record.fitted_on:
            assert record.note, record.name
        assert record.kind != "fitted" or record.fitted_on


def test_at_most_six_values_are_fitted_each_on_a_row_of_its_own():
    fitted_on = [record.fitted_on for record in RECORDS if record.fitted_on]

    assert len(fitted_on) <= MOST_FITTED
    assert len(set(fitted_on)) == len(fitted_on)


@pytest.mark.parametrize("chip", ["trn1", "trn2"])
def test_parameters_of_a_chip_are_its_own_values(chip):
    found = parameters_of(chip)

    assert found.chip == chip
    assert all(getattr(found, record.name) == record.values[chip] for record in RECORDS)


@pytest.mark.parametrize("chip", ["trn3", "trn9"])
def test_a_chip_without_figures_is_unknown_and_what_is_missing_is_named(chip):
    with pytest.raises(KernelError) as raised:
        parameters_of(chip)

    text = str(raised.value)
    assert chip in text
    first = [record.name for record in RECORDS if chip not in record.values][:2]
    assert all(name in text for name in first)
    assert "\n" not in text


def test_peak_and_width_agree_with_the_clock():
    for chip in ("trn1", "trn2"):
        found = parameters_of(chip)
        assert found.tensor_peak == pytest.approx(128 * 128 * 2 * found.tensor_ghz / 1000, rel=1e-3)


def test_changing_one_parameter_leaves_the_others():
    before = parameters_of("trn2")

    after = before.changed(dma_rate=1.0)

    assert after.dma_rate == 1.0
    assert before.dma_rate == 23.0
    assert all(getattr(after, name) == getattr(before, name) for name in NAMES - {"dma_rate"})
