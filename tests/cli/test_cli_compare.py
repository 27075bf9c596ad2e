"""``twintrack compare``: words of the command line to a comparison, on the terminal, as JSON and as a page."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from twintrack.cli.compare import command
from twintrack.cli.group import group, run

sys.path.append(str(Path(__file__).parents[1] / "pilot"))
from synthetic import Story, make_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return make_run(tmp_path_factory.mktemp("compare") / "run", Story(stops=()))


def invoke(*arguments: object, width: int = 100):
    return CliRunner(env={"COLUMNS": str(width)}).invoke(command, [str(one) for one in arguments])


@pytest.mark.parametrize("width", [80, 120, 200])
def test_no_line_is_wider_than_the_terminal_or_120_columns(folder, width):
    done = invoke(f"{folder}:cpu", f"{folder}:trn2", width=width)

    assert done.exit_code == 0, done.output
    assert max(map(len, done.output.splitlines())) <= min(width, 120)
    for text in (
        "trn2 is as good as cpu",
        "equivalent",
        "the worst slice first",
        "Answers",
        "never Trainium's",
    ):
        assert text in " ".join(done.output.split())


def test_json_holds_the_figures_with_their_sources(folder):
    done = invoke(f"{folder}:cpu", f"{folder}:trn2", "--json", "--seed", 3, "--tolerance", 0.001)
    found = json.loads(done.output)

    assert found["format"] == 1
    assert found["test"]["seed"] == 3
    assert found["quality"] is False
    assert found["tolerance"]["value"] == 0.001
    assert found["losses"]["largest"]["kind"] == "derived"


def test_the_page_is_written_where_it_was_asked_for(folder, tmp_path):
    done = invoke(f"{folder}:cpu", f"{folder}:trn2", "--html", tmp_path / "page.html")

    assert f"page: {tmp_path / 'page.html'}" in done.output.replace("\n", "")
    assert "Loss, side by side" in (tmp_path / "page.html").read_text()


def test_costs_are_shown_when_asked_for(folder):
    asked = invoke(f"{folder}:cpu", f"{folder}:trn2", "--cost", "--on", "2026-11-30")

    assert "reserved resource" in asked.output
    assert "reserved resource" not in invoke(f"{folder}:cpu", f"{folder}:trn2").output


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("{}:cpu", "{}:cpu"), "required two runs"),
        (("{}", "{}:cpu"), "required one track"),
        (("{}:cpu", "{}:tpu"), "required one of the tracks cpu, trn2"),
        (("nowhere", "{}:cpu"), "pilot.json"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(folder, capsys, words, text):
    code = run(group, ["compare", *(word.format(folder) for word in words)])
    said = capsys.readouterr().err

    assert code == 2
    assert text in said
    assert said.count("\n") == 1
