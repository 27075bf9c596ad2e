"""``twintrack ledger``: what a run cost, for people and for machines."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from twintrack.cli.group import group, run
from twintrack.cli.ledger import command

sys.path.append(str(Path(__file__).parents[1] / "pilot" / "ledger"))
from made_runs import calm, made_job, price_text, stopped, write_run

ON = ("--on", "2026-11-30")


def invoke(*arguments: str, width: int = 80):
    return CliRunner(env={"COLUMNS": str(width)}).invoke(command, [*arguments, *ON])


@pytest.fixture
def folder(tmp_path) -> Path:
    job = made_job(
        tracks=({"use": ("cpu",), "instance": "box.large"}, {"use": ("trn2",), "instance": "trn2.48xlarge"})
    )
    runs = {"cpu/reference": calm(), "cpu/interrupted": stopped(), "trn2/reference": calm("trn2")}
    (tmp_path / "prices.toml").write_text(price_text() + price_text("storage", 0.03, "USD/GB-month"))
    return write_run(tmp_path / "run", job, runs)


@pytest.fixture
def prices(folder) -> tuple[str, str]:
    return "--prices", str(folder.parent / "prices.toml")


@pytest.mark.parametrize("width", [80, 120])
def test_it_shows_a_line_per_ledger_line_and_what_is_missing(folder, prices, width):
    shown = invoke(str(folder), *prices, width=width)

    assert shown.exit_code == 0, shown.output
    lines = shown.output.splitlines()
    assert all(len(line) <= width for line in lines)
    begun = [line.split("  ")[0] for line in lines]
    for name in ("reserved resource", "compilation", "resume", "operating time (not in total)", "total"):
        assert begun.count(name) == 2, shown.output  # a line of its own for each of two tracks
    assert "0.5900 USD" in shown.output
    assert "The total is unknown:" in shown.output
    assert "the seconds of an emulation are not a Trainium2's" in " ".join(shown.output.split())
    assert "Prices as of 2026-11-30." in shown.output


def test_a_track_or_a_run_can_be_named(folder, prices):
    track = json.loads(invoke(f"{folder}:cpu", "--json", *prices).output)
    calm_run = json.loads(invoke(f"{folder}:cpu/reference", "--json", *prices).output)
    path = json.loads(invoke(str(folder / "tracks" / "cpu" / "reference"), "--json", *prices).output)

    assert [one["run"] for one in track["tracks"]] == [f"{folder}:cpu/interrupted"]
    assert [one["run"] for one in calm_run["tracks"]] == [f"{folder}:cpu/reference"]
    assert path == calm_run
    assert calm_run["tracks"][0]["time"]["value"] == 100.0


def test_the_day_is_today_where_none_is_named(folder, prices):
    shown = CliRunner().invoke(command, [str(folder), "--json", *prices])

    assert len(json.loads(shown.output)["on"]) == len("2026-11-30")


def test_abandoned_trials_can_be_named(folder, prices, tmp_path):
    trial = write_run(tmp_path / "trial", made_job(), {"cpu/reference": calm()[:-2]})
    shown = json.loads(invoke(f"{folder}:cpu", "--json", "--abandoned", str(trial), *prices).output)

    (line,) = [one for one in shown["tracks"][0]["lines"] if one["name"] == "abandoned trials"]
    assert line["amount"]["value"] == pytest.approx(0.90)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nowhere"], "a run folder, with pilot.json"),
        (["{folder}:gpu"], "required one of the tracks cpu, trn2, found gpu"),
        (["{folder}", "--prices", "{folder}/none.toml"], "none.toml"),
        (["{folder}", "--prices", "{folder}/job.json"], "job.json:1: required TOML"),
        (["{folder}", "--abandoned", "{folder}"], "a run that never finished"),
        (["{folder}", "--on", "yesterday"], "takes a day such as"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(folder, capsys, arguments, told):
    code = run(group, ["ledger", *(one.format(folder=folder) for one in arguments)])

    error = capsys.readouterr().err
    assert code == 2
    assert told in error
    assert error.count("\n") == 1


def test_nothing_that_a_run_says_moves_the_cursor(tmp_path, prices):
    job = made_job(tracks=({"use": ("cpu",)},))
    folder = write_run(tmp_path / "other", job, {"cpu/reference": calm("cpu", instance="box\x1b[2J")})

    shown = invoke(str(folder), *prices)

    assert shown.exit_code == 0
    assert "\x1b" not in shown.output
