"""``twintrack report``: the report again, from the events alone."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from twintrack.cli.report import command
from twintrack.errors import RunFolderError

sys.path.append(str(Path(__file__).parents[1] / "pilot"))
from synthetic import Story, make_run


def invoke(*arguments: str):
    return CliRunner().invoke(command, [*arguments])


@pytest.fixture
def run(tmp_path) -> Path:
    return make_run(tmp_path / "run", Story(steps=6, every=3, stops=(("kill", 4),)))


def test_it_makes_summary_and_page_and_says_where(run):
    done = invoke(str(run))

    assert done.exit_code == 0, done.output
    assert f"report: {run / 'report.html'}" in done.output
    assert "The pilot passed" in done.output
    assert (run / "summary.json").exists()


def test_it_needs_nothing_but_the_events(run, tmp_path):
    """A copy of pilot.json, job.json and the events elsewhere gives the same files to the byte."""
    invoke(str(run))
    bare = tmp_path / "elsewhere"
    for path in [run / "pilot.json", run / "job.json", *run.rglob("events.jsonl")]:
        target = bare / path.relative_to(run)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    invoke(str(bare))

    for name in ("summary.json", "report.html"):
        assert (bare / name).read_bytes() == (run / name).read_bytes()


def test_a_folder_that_is_no_run_is_the_users_mistake(tmp_path):
    done = invoke(str(tmp_path))

    assert isinstance(done.exception, RunFolderError)
    assert "pilot.json" in str(done.exception)
    assert not (tmp_path / "report.html").exists()


def test_a_failed_pilot_is_reported_and_the_report_still_made(run):
    (run / "tracks/cpu/reference/events.jsonl").write_text("")
    done = invoke(str(run))

    assert done.exit_code == 0
    assert "The pilot failed" in done.output
    assert (run / "report.html").exists()


def test_open_shows_the_page(run, monkeypatch):
    shown = []
    monkeypatch.setattr("click.launch", shown.append)
    invoke(str(run), "--open")

    assert shown == [str((run / "report.html").resolve())]
