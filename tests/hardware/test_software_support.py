"""Support facts: dated, sourced, and right about a day before, inside and after the dates that a source gives."""

from __future__ import annotations

import datetime
import re
from dataclasses import replace
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twintrack.errors import CatalogueError
from twintrack.hardware import Side, SupportStatus, load_catalogue
from twintrack.hardware.catalogue import parse_catalogue

FACTS = {fact.key: fact for fact in load_catalogue().software}
FILES = {
    entry.name: entry.read_text(encoding="utf-8")
    for entry in resources.files("twintrack.hardware").joinpath("data").iterdir()
    if entry.name.endswith(".toml")
}
DAYS = st.dates(datetime.date(2020, 1, 1), datetime.date(2030, 12, 31))


def test_both_sides_are_described_and_each_fact_has_a_source():
    assert {fact.side for fact in FACTS.values()} == set(Side)
    for fact in FACTS.values():
        assert fact.source.where
        assert fact.statement.endswith((".", ";"))
        assert fact.as_of == fact.source.date


@pytest.mark.parametrize(
    ("key", "day", "status"),
    [
        ("torchneuron", "2026-10-18", SupportStatus.UNKNOWN),
        ("torchneuron", "2026-10-19", SupportStatus.BETA),
        ("torchneuron", "2027-01-01", SupportStatus.BETA),
        ("torchneuron-closed", "2026-05-01", SupportStatus.BETA),
        ("torchneuron-closed", "2026-10-19", SupportStatus.ENDED),
        ("nxd-training", "2026-11-30", SupportStatus.ENDED),
        ("nxd-training-maintenance", "2026-06-01", SupportStatus.MAINTENANCE),
        ("nxd-training-maintenance", "2026-08-17", SupportStatus.ENDED),
        ("xla-training", "2026-05-20", SupportStatus.UNKNOWN),
        ("xla-training", "2026-05-21", SupportStatus.ENDED),
        ("optimum-neuron", "2026-11-30", SupportStatus.UNKNOWN),
        ("pytorch-2-13", "2026-11-30", SupportStatus.SUPPORTED),
        ("torchtune", "2026-11-30", SupportStatus.ENDED),
    ],
)
def test_status_on_a_day_is_what_the_source_says_of_that_day(key, day, status):
    assert FACTS[key].status_on(datetime.date.fromisoformat(day)) is status


@given(day=DAYS)
def test_no_fact_is_supported_outside_its_dates(day):
    """Compared with the dates as ISO text, whose order is that of the calendar."""
    for fact in FACTS.values():
        got = fact.status_on(day)
        text = day.isoformat()
        if fact.since and text < fact.since[: len(text)] and not text.startswith(fact.since):
            assert got is SupportStatus.UNKNOWN
        elif fact.until and text > fact.until and not text.startswith(fact.until):
            assert got is SupportStatus.ENDED
        else:
            assert got is fact.status


@pytest.mark.parametrize(
    ("old", "new", "where", "says"),
    [
        ('status = "beta"', 'status = "alpha"', "status", "supported, beta"),
        ('until = "2026-10-18"', 'until = "2024-10-18"', "until", "on or after the beginning"),
        ('since = "2026-10-19"', 'since = "19.10.2026"', "since", "YYYY"),
        ('status = "ended"', 'status = "ended"\nuntil = "2026-12-31"', "until", "no end"),
        ('side = "trainium"', 'side = "tpu"', "side", "trainium, gpu"),
        ('source = "torchneuron-2-33"', 'source = "torchneuron-2-34"', "source", "torchneuron-2-33"),
        ('key = "torchneuron-closed"', 'key = "torchneuron"', "torchneuron", "each software once"),
    ],
)
def test_a_spoiled_fact_is_refused_and_the_refusal_names_the_key(old, new, where, says):
    text = FILES["software.toml"]
    assert old in text

    with pytest.raises(CatalogueError, match=re.escape(says)) as caught:
        parse_catalogue({**FILES, "software.toml": text.replace(old, new, 1)})

    assert caught.value.where.endswith(where)


@pytest.mark.parametrize(
    ("since", "until", "day", "status"),
    [
        ("2026-03", "2026-05", "2026-02-28", SupportStatus.UNKNOWN),
        ("2026-03", "2026-05", "2026-03-01", SupportStatus.MAINTENANCE),
        ("2026-03", "2026-05", "2026-05-31", SupportStatus.MAINTENANCE),
        ("2026-03", "2026-05", "2026-06-01", SupportStatus.ENDED),
        (None, "2026", "2026-12-31", SupportStatus.MAINTENANCE),
        (None, None, "1999-01-01", SupportStatus.MAINTENANCE),
    ],
)
def test_a_date_of_a_month_or_a_year_lasts_to_its_last_day(since, until, day, status):
    fact = replace(FACTS["nxd-training-maintenance"], since=since, until=until)

    assert fact.status_on(datetime.date.fromisoformat(day)) is status
