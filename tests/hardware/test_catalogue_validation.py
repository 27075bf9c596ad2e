"""Spoiled data files are refused, and the refusal names the file and the key."""

from __future__ import annotations

import re
from importlib import resources
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twintrack.errors import CatalogueError
from twintrack.hardware import load_catalogue
from twintrack.hardware.catalogue import Catalogue, parse_catalogue

FILES = {
    entry.name: entry.read_text(encoding="utf-8")
    for entry in resources.files("twintrack.hardware").joinpath("data").iterdir()
    if entry.name.endswith(".toml")
}
SMALL = """\
[source.page]
where = "a page"
date = "2026-01"
status = "doc"

[link.wire]
title = "Wire"
connects = "chips"
direction = "not stated"
per_chip_gb_per_s = { value = 100, unit = "GB/s", source = "page" }

[chip.one]
title = "One"
vendor = "V"
architecture = "A"
link = "wire"
lnc = [1, 2]
cores = { value = 4, unit = "cores", source = "page" }
tensor_bf16_tflops = { value = 100, unit = "TFLOPS", source = "page" }
tensor_fp8_tflops = { unknown = "nobody says" }
tensor_fp32_tflops = { value = 25.5, unit = "TFLOPS", source = "page", conditions = "dense" }
hbm_capacity_gib = { value = 16, unit = "GiB", source = "page" }
hbm_bandwidth_tb_per_s = { value = 1, unit = "TB/s", source = "page", status = "third_party" }
link_bandwidth_gb_per_s = { value = 100, unit = "GB/s", source = "page" }
power_w = { value = 300, unit = "W", source = "page", status = "derived", formula = "3 x 100" }
core_tensor_bf16_tflops = { value = 25, unit = "TFLOPS", source = "page" }
sbuf_per_core_mib = { value = 8, unit = "MiB", source = "page" }
psum_per_core_mib = { value = 1, unit = "MiB", source = "page" }

[instance.box]
title = "Box"
chip = "one"
link = "wire"
chip_count = { value = 2, unit = "chips", source = "page" }
vcpus = { value = 8, unit = "vCPU", source = "page" }
host_memory_gib = { value = 64, unit = "GiB", source = "page" }
efa_gbps = { value = 100, unit = "Gbps", source = "page" }

[[price]]
machine = "box"
model = "on_demand"
regions = ["us-east-1"]
usd_per_hour = { value = 3.5, unit = "USD/h", source = "page", observed = "2026-03" }

[[disagreement]]
key = "k"
topic = "Bandwidth"
about = ["one"]
used = "1 TB/s"
reason = "because"
claim = [{ value = "1 TB/s", source = "page" }, { value = "2 TB/s", source = "page" }]
"""


def _refusal(text: str) -> str:
    with pytest.raises(CatalogueError) as caught:
        parse_catalogue({"small.toml": text})
    assert caught.value.exit_code == 2
    assert caught.value.where.startswith("small.toml") or re.match(r"[a-z]+\.", caught.value.where)
    return str(caught.value)


def test_the_small_file_is_sound():
    catalogue = parse_catalogue({"small.toml": SMALL})

    assert catalogue.chip("one").logical_core(2).hbm_capacity_byte.value == 8 * 2**30
    assert catalogue.instance("box").hbm_bandwidth_tb_per_s.value == 2
    assert not catalogue.instance("box").tensor_fp8_pflops.known
    assert catalogue.prices("box")[0].per_chip_usd_per_hour.value == 1.75


@pytest.mark.parametrize(
    ("old", "new", "where", "says"),
    [
        ("power_w =", "pwer_w =", "small.toml: chip.one", "power_w"),
        ("vendor =", "vendr =", "small.toml: chip.one.vendor", "nothing"),
        ('title = "One"', 'title = "One"\ncolour = "red"', "small.toml: chip.one.colour", "a known key"),
        ('hbm_capacity_gib = { value = 16, unit = "GiB"', 'hbm_capacity_gib = { value = 16, unit = "GB"',
         "small.toml: chip.one.hbm_capacity_gib.unit", "GiB"),
        ('value = 16, unit = "GiB", source = "page" }', 'value = 16, source = "page" }',
         "small.toml: chip.one.hbm_capacity_gib.unit", "nothing"),
        ('value = 16, unit = "GiB", source = "page" }', 'value = 16, unit = "GiB" }',
         "small.toml: chip.one.hbm_capacity_gib.source", "nothing"),
        ('value = 16, unit = "GiB", source = "page" }', 'value = 16, unit = "GiB", source = "pag" }',
         "small.toml: chip.one.hbm_capacity_gib.source", "did you mean 'page'?"),
        ('value = 16, unit = "GiB"', 'value = "16", unit = "GiB"',
         "small.toml: chip.one.hbm_capacity_gib.value", "positive"),
        ("value = 16,", "value = -16,", "small.toml: chip.one.hbm_capacity_gib.value", "-16"),
        ("value = 16,", "value = 0,", "small.toml: chip.one.hbm_capacity_gib.value", "positive"),
        ("value = 16,", "value = inf,", "small.toml: chip.one.hbm_capacity_gib.value", "inf"),
        ("value = 16,", "value = nan,", "small.toml: chip.one.hbm_capacity_gib.value", "nan"),
        ("value = 16,", "value = true,", "small.toml: chip.one.hbm_capacity_gib.value", "True"),
        ("value = 2, unit", "value = 2.5, unit", "small.toml: instance.box.chip_count.value", "whole number"),
        ('source = "page", conditions', 'source = "page", condition',
         "small.toml: chip.one.tensor_fp32_tflops.condition", "conditions"),
        ('{ unknown = "nobody says" }', '{ unknown = "" }', "small.toml: chip.one.tensor_fp8_tflops.unknown", "text"),
        ('{ unknown = "nobody says" }', '{ unknown = "nobody says", value = 3 }',
         "small.toml: chip.one.tensor_fp8_tflops.value", "a known key"),
        (', formula = "3 x 100"', "", "small.toml: chip.one.power_w.formula", "nothing"),
        ('status = "derived", ', "", "small.toml: chip.one.power_w.formula", "derived"),
        ('status = "third_party"', 'status = "rumour"', "small.toml: chip.one.hbm_bandwidth_tb_per_s.status", "doc"),
        ('status = "third_party"', 'status = "unknown"', "small.toml: chip.one.hbm_bandwidth_tb_per_s.status",
         "unknown = 'reason'"),
        ('date = "2026-01"', 'date = "2026-13"', "small.toml: source.page.date", "YYYY-MM"),
        ('date = "2026-01"', "date = 2026-01-01", "small.toml: source.page.date", "text"),
        ('date = "2026-01"', "", "small.toml: source.page.date", "nothing"),
        ('status = "doc"', 'status = "derived"', "small.toml: source.page.status", "third_party"),
        (', observed = "2026-03"', "", "small.toml: price[0].usd_per_hour.observed", "nothing"),
        ('machine = "box"', 'machine = "bx"', "small.toml: price[0].machine", "did you mean 'box'?"),
        ('model = "on_demand"', 'model = "ondemand"', "small.toml: price[0].model", "did you mean 'on_demand'?"),
        ('["us-east-1"]', '["us-east-1", "us-east-1"]', "small.toml: price[0].regions", "repetition"),
        ('["us-east-1"]', '"us-east-1"', "small.toml: price[0].regions", "list"),
        ('chip = "one"', 'chip = "on"', "small.toml: instance.box.chip", "did you mean 'one'?"),
        ('link = "wire"\nlnc', 'link = "wir"\nlnc', "small.toml: chip.one.link", "did you mean 'wire'?"),
        ("lnc = [1, 2]", "lnc = [0]", "small.toml: chip.one.lnc", "positive"),
        ("lnc = [1, 2]", "", "small.toml: chip.one.lnc", "chip that has cores"),
        ("sbuf_per_core_mib =", "# sbuf =", "small.toml: chip.one.sbuf_per_core_mib", "chip that has cores"),
        ('cores = { value = 4, unit = "cores", source = "page" }\n', "", "small.toml: chip.one.lnc", "without cores"),
        ('about = ["one"]', 'about = ["on"]', "small.toml: disagreement[0].about", "did you mean 'one'?"),
        ('used = "1 TB/s"', 'used = "3 TB/s"', "small.toml: disagreement[0].used", "1 TB/s"),
        ('"2 TB/s"', '"1 TB/s"', "small.toml: disagreement[0].claim", "two claims that differ"),
        ("[chip.one]", "[chop.one]", "small.toml: chop", "did you mean 'chip'?"),
        ("[chip.one]", "[chip.One]", "small.toml: instance.box.chip", "One"),
        ("[link.wire]", "[link.wire", "small.toml", "TOML"),
        ("[link.wire]", "[link.one]", "small.toml: chip.one.link", "wire"),
        ("[instance.box]", "[instance.Box]", "small.toml: price[0].machine", "'Box'"),
    ],
)  # fmt: skip
def test_a_spoiled_file_is_refused_with_file_and_key(old, new, where, says):
    assert SMALL.count(old) >= 1
    message = _refusal(SMALL.replace(old, new, 1))

    assert message.startswith(where), message
    assert says in message, message
    assert "\n" not in message


def test_a_name_used_for_two_kinds_is_refused():
    text = SMALL.replace("[instance.box]", "[instance.wire]").replace('machine = "box"', 'machine = "wire"')

    assert "also a link" in _refusal(text)


def test_the_same_record_in_two_files_is_refused():
    with pytest.raises(CatalogueError, match=r"again\.toml: source\.page: required each source once"):
        parse_catalogue(
            {"a.toml": SMALL, "again.toml": '[source.page]\nwhere = "w"\ndate = "2026"\nstatus = "doc"\n'}
        )


def test_the_same_disagreement_twice_is_refused():
    text = SMALL + SMALL[SMALL.index("[[disagreement]]") :]

    assert "each disagreement once" in _refusal(text)


def test_a_file_that_is_not_text_is_refused_by_name(tmp_path):
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(CatalogueError, match=r"^bad\.toml: required UTF-8"):
        load_catalogue(tmp_path)


def test_a_folder_of_data_files_can_be_read_instead(tmp_path):
    (tmp_path / "small.toml").write_text(SMALL)
    (tmp_path / "README.txt").write_text("not a data file")

    assert set(load_catalogue(tmp_path).chips) == {"one"}


FIGURE_LINES = [
    (name, number)
    for name, text in FILES.items()
    for number, line in enumerate(text.splitlines())
    if re.match(r"[a-z_0-9]+ = \{ value", line)
]
MUTATIONS = {
    "no source": lambda line: re.sub(r', source = "[^"]*"', "", line),
    "unknown source": lambda line: re.sub(r'source = "[^"]*"', 'source = "elsewhere"', line),
    "no unit": lambda line: re.sub(r', unit = "[^"]*"', "", line),
    "other unit": lambda line: re.sub(r'unit = "[^"]*"', 'unit = "furlong"', line),
    "negative": lambda line: line.replace("value = ", "value = -"),
    "other key": lambda line: f"x_{line}",
    "extra key": lambda line: line.replace(" }", ", colour = 1 }"),
}


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(FIGURE_LINES), st.sampled_from(sorted(MUTATIONS)))
def test_every_figure_of_the_package_is_guarded(place, mutation):
    """Whatever figure is spoiled in whatever way: the refusal names its file and its key."""
    name, number = place
    lines = FILES[name].splitlines()
    key = lines[number].split(" = ")[0]
    lines[number] = MUTATIONS[mutation](lines[number])

    with pytest.raises(CatalogueError) as caught:
        parse_catalogue({**FILES, name: "\n".join(lines)})

    assert caught.value.where.startswith(f"{name}: ")
    assert key in caught.value.where, str(caught.value)


def _outcome(files: dict[str, str]) -> Catalogue | CatalogueError:
    try:
        return parse_catalogue(files)
    except CatalogueError as error:
        return error


JUNK = st.text(st.sampled_from('[]{}=",.# \nabc019-'), max_size=12)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(SMALL)), st.integers(0, 30), JUNK)
def test_damaged_text_is_read_or_refused_and_never_crashes(start, length, junk):
    outcome = _outcome({"small.toml": SMALL[:start] + junk + SMALL[start + length :]})

    if isinstance(outcome, CatalogueError):
        assert "\n" not in str(outcome)
        assert outcome.where


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(["source", "chip", "link", "instance", "server", "price", "disagreement"]), VALUES)
def test_any_value_in_the_place_of_a_table_is_read_or_refused(kind, value):
    """The parser is replaced, so that every shape TOML can have is reached."""
    with patch("twintrack.hardware.reading.tomllib.loads", return_value={kind: value}):
        outcome = _outcome({"any.toml": ""})

    assert isinstance(outcome, Catalogue) or str(outcome).startswith("any.toml: ")
