"""What the pages of the example kernels say of their times is what the model gives now, and each has its picture."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import struct
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from twintrack.cli.kernel import command
from twintrack.report.format import quantity_text

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "kernels"
REMAKE = "run: python examples/kernels/profiles.py --write"


def _module(name):
    """A module of the examples, imported beside its table as Python does for a script."""
    sys.path.insert(0, str(FOLDER))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(FOLDER))


EXAMPLES = {one.name: one for one in _module("table").EXAMPLES}
STEPS = _module("matmul_steps")


def _sections(folder):
    return _module("pages").sections_in((FOLDER / folder / "README.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_section_of_a_page_is_what_the_model_gives_now(name):
    profiles = _module("profiles")
    one = EXAMPLES[name]

    section = profiles.section_of(one, profiles.profile_example(one))

    assert section in _sections(one.folder), REMAKE


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_picture_is_a_png_that_a_page_can_show(name):
    path = _module("profiles").picture_of(EXAMPLES[name])
    data = path.read_bytes()
    width, height = struct.unpack(">II", data[16:24])

    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert 3_000 < len(data) < 80_000  # a blank one is smaller
    assert 700 <= width <= 900
    assert 80 <= height <= 700
    assert f"({path.name})" in (path.parent / "README.md").read_text(encoding="utf-8")


def test_every_page_says_what_its_picture_shows():
    """Behind each section that is made stands a text that is not."""
    silent = [
        one.name
        for one in EXAMPLES.values()
        if not re.search(
            re.escape(f"({_module('profiles').picture_of(one).name})") + r"\n\n<!-- simulated: end -->\n\n\w",
            (FOLDER / one.folder / "README.md").read_text(encoding="utf-8"),
        )
    ]

    assert not silent, f"say below the picture what it shows: {silent}"


@pytest.mark.parametrize("name", ["softmax", "embedding_gather", "center_columns"])
def test_the_command_on_a_page_gives_the_time_on_it(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    profiles = _module("profiles")
    (shown,) = _sections(EXAMPLES[name].folder)
    line = re.search(r"^    twintrack kernel (profile .+) --out profile/$", shown, re.MULTILINE)
    assert line is not None

    ran = CliRunner().invoke(command, [*shlex.split(line[1]), "--quick", "--json"], catch_exceptions=False)

    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["seconds"] == profiles.profile_example(EXAMPLES[name]).seconds


def test_the_general_command_cannot_run_one_rank_so_the_page_shows_none():
    (section,) = _sections("collective_matmul")

    assert "twintrack kernel profile" not in section
    assert "Rank 0 of 4" in section


def _step_rows():
    """Rows of the two tables of steps, by kernel: those of trn2, those of trn1."""
    rows = re.findall(r"^\| `(matmul_\w+)` \| (.+) \|$", _sections("matmul")[0], re.MULTILINE)
    split = [(name, cells.split(" | ")) for name, cells in rows]
    return dict(split[:4]), dict(split[4:])


def test_each_step_on_the_page_is_faster_than_the_one_before():
    trn2, trn1 = _step_rows()

    assert list(trn2) == list(trn1) == [one.name for one in STEPS.STEPS]
    for column in (
        *([row[0] for row in rows.values()] for rows in (trn2, trn1)),
        [r[2] for r in trn1.values()],
    ):
        times = [float(cell.split(" ms")[0]) for cell in column]
        assert times == sorted(times, reverse=True)
        assert times[0] > 4 * times[3]
    assert [row[6] for row in trn2.values()] == [
        "issuing of DMAs",
        "DMA bandwidth",
        "Tensor Engine",
        "Tensor Engine",
    ], "the story below the table tells of these limits: write it anew"


@pytest.mark.slow
@pytest.mark.parametrize("chip", ["trn2", "trn1"])
@pytest.mark.parametrize("number", range(4))
def test_a_step_at_the_published_size_takes_what_the_page_says(chip, number):
    one = STEPS.STEPS[number]
    shown = _step_rows()[chip == "trn1"][one.name]

    found = STEPS.profile_step(one, chip, what_if=False)

    assert shown[0] == quantity_text(found.time), REMAKE
    assert f"{found.dma.share:.0%}" in shown[1:3], REMAKE
    if chip == "trn2":
        assert shown[2:4] == [f"{found.engines['tensor'].share:.0%}", f"{found.hbm_bytes * 1e-9:.2f} GB"], (
            REMAKE
        )


def test_a_page_with_another_number_of_places_is_refused(tmp_path):
    pages = _module("pages")
    page = tmp_path / "README.md"
    page.write_text(f"# A\n\n{pages.BEGIN}\nold\n{pages.END}\n\nkept\n")

    with pytest.raises(ValueError, match="1 places"):
        pages.write_sections(page, ["one", "two"])
    pages.write_sections(page, ["new"])

    assert page.read_text() == f"# A\n\n{pages.BEGIN}\n\nnew\n\n{pages.END}\n\nkept\n"
    assert pages.sections_in(page.read_text()) == ["new"]
