"""``twintrack hardware``, as a person and a program meet it."""

from __future__ import annotations

import json
import re

import pytest

from twintrack.cli.group import group, run
from twintrack.hardware import load_catalogue

CATALOGUE = load_catalogue()
NAMES = [*CATALOGUE.chips, *CATALOGUE.instances, *CATALOGUE.servers, *CATALOGUE.links]


def _words(text: str) -> str:
    """The text without spaces and line ends, so that wrapping does not matter."""
    return re.sub(r"\s", "", text)


def _run(capsys, monkeypatch, *arguments, columns=100):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert run(group, ["hardware", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("columns", [80, 100, 160])
def test_list_shows_every_name_whole_and_fits_the_terminal(capsys, monkeypatch, columns):
    out = _run(capsys, monkeypatch, "list", columns=columns)

    for name in NAMES:
        assert re.search(rf"^\s*{re.escape(name)}\s", out, re.MULTILINE), name
    assert max(map(len, out.splitlines())) <= columns
    assert "…" not in out


@pytest.mark.parametrize("name", NAMES)
def test_show_prints_every_figure_with_unit_kind_date_and_source(capsys, monkeypatch, name):
    out = _run(capsys, monkeypatch, "show", name)
    words = _words(out)

    assert max(map(len, out.splitlines())) <= 100
    assert "…" not in out
    record = CATALOGUE.find(name)
    for key, _, quantity in record.figures():
        assert quantity.unit in out or not quantity.known, key
        assert str(quantity.kind) in out
        source = record.details[key].source
        if source:
            assert _words(source.where) in words, key
            assert (source.date or "undated") in out
        else:
            assert quantity.kind in ("derived", "unknown")


@pytest.mark.parametrize("name", NAMES)
def test_disagreements_stand_below_with_all_claims_the_used_one_and_why(capsys, monkeypatch, name):
    out = _run(capsys, monkeypatch, "show", name)

    items = CATALOGUE.disagreements_about(name)
    assert ("where sources disagree" in out) == bool(items)
    below = _words(out.partition("where sources disagree")[2])
    for item in items:
        assert _words(item.topic) in below
        assert "why" + _words(item.reason) in below
        for claim in item.claims:
            mark = "used" if claim is item.used else "or"
            assert mark + _words(claim.value) in below, claim.value
            assert _words(claim.source.where) in below


def test_the_article_is_answered_where_the_instance_is_shown(capsys, monkeypatch):
    out = _run(capsys, monkeypatch, "show", "trn2.48xlarge")

    assert re.search(r"HBM bandwidth\s+46\.4 TB/s\s+published", out)
    assert re.search(r"peak FP8, dense\s+20\.8 PFLOPS\s+published", out)
    assert re.search(r"or 20\.8 TB/s \[\d+\]", out)
    assert re.search(r"used 46\.4 TB/s \[\d+\]", out)


def test_prices_are_shown_with_region_date_and_the_unknown_ones(capsys, monkeypatch):
    out = _run(capsys, monkeypatch, "show", "trn2.48xlarge", columns=160)

    assert re.search(r"capacity block: us-east-2\s+35\.7608 USD/h\s+published\s+2026-07-22", out)
    assert re.search(r"capacity block: us-east-2\s+35\.7608 USD/h\s+published\s+2026-01-31", out)
    assert re.search(r"on demand\s+unknown\s+unknown", out)


def test_logical_cores_of_a_chip_are_shown(capsys, monkeypatch):
    out = _run(capsys, monkeypatch, "show", "trainium2", columns=160)

    lnc2 = out.partition("logical NeuronCore, LNC 2")[2]
    assert re.search(r"TensorE peak BF16, dense\s+157\.2 TFLOPS\s+derived", lnc2)
    assert re.search(r"HBM bandwidth, equal share\s+725 GB/s\s+derived", lnc2)
    assert "2 x 2.9 TB/s per chip / 8 cores" in lnc2


@pytest.mark.parametrize("name", NAMES)
def test_show_json_has_every_figure_unscaled(capsys, monkeypatch, name):
    content = json.loads(_run(capsys, monkeypatch, "show", name, "--json"))

    record = CATALOGUE.find(name)
    assert (content["format"], content["name"]) == ("twintrack.hardware/1", name)
    rows = {row["key"]: row for row in content["sections"]["figures"]}
    for key, _, quantity in record.figures():
        row = rows.pop(key)
        assert (row["value"], row["unit"], row["kind"]) == (quantity.value, quantity.unit, quantity.kind)
        assert (row["source"], row["date"]) == (quantity.source, quantity.date)
        assert row["status"] == record.details[key].status
    assert not rows
    assert [item["key"] for item in content["disagreements"]] == [
        item.key for item in CATALOGUE.disagreements_about(name)
    ]


def test_json_prices_carry_their_regions(capsys, monkeypatch):
    content = json.loads(_run(capsys, monkeypatch, "show", "trn2.3xlarge", "--json"))

    newest = content["sections"]["prices"][0]
    assert (newest["value"], newest["date"]) == (2.235, "2026-07-22")
    assert newest["regions"] == ["ap-southeast-4", "sa-east-1"]


def test_list_json_names_everything(capsys, monkeypatch):
    content = json.loads(_run(capsys, monkeypatch, "list", "--json"))

    assert [name for kind in ("chips", "instances", "servers", "links") for name in content[kind]] == NAMES


def test_an_unknown_name_ends_with_one_line_and_code_2(capsys):
    assert run(group, ["hardware", "show", "trn2.48xlrge"]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "did you mean 'trn2.48xlarge'?" in err
