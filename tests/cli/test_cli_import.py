"""``twintrack import``: what a person sees."""

from __future__ import annotations

import sys

import pytest
from click.testing import CliRunner

from twintrack.cli.group import group, run

JOB = """name = "elsewhere"
[model]
source = "model"
[data]
files = ["data.jsonl"]
[stop]
steps = 3
[[tracks]]
use = ["cuda"]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.toml").write_text(JOB)
    (tmp_path / "log.csv").write_text("step,loss\n1,3.0\n3,2.5\n")
    return tmp_path


def test_it_says_what_was_read_what_is_wrong_and_what_comes_next(folder):
    asked = [
        "import",
        "log.csv",
        "--as",
        "run",
        "--job",
        "job.toml",
        "--track",
        "cuda",
        "--columns",
        "loss=loss",
    ]
    done = CliRunner().invoke(group, asked)

    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[0] == "cuda reference: 4 events from 3 lines of log.csv"
    assert "  line 3: step 2 is not in the log" in done.output
    assert done.output.splitlines()[-1] == "next: twintrack report run"
    report = CliRunner().invoke(group, ["report", "run"])
    assert report.exit_code == 0, report.output
    assert "The pilot failed" in report.output


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["log.csv", "--track", "cuda"], "log.csv"),
        (["nothing.csv", "--track", "cuda", "--job", "job.toml"], "nothing.csv"),
        (["job.toml", "--track", "cuda", "--job", "job.toml"], "job.toml"),
        (["log.csv", "--track", "cuda", "--job", "log.csv"], "log.csv"),
        (["log.csv", "--track", "cuda", "--job", "job.toml", "--columns", "x"], "--columns"),
        (["log.csv", "--track", "tpu", "--job", "job.toml"], "--track"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_two(folder, capsys, arguments, text):
    del folder
    assert run(group, ["import", "--as", "run", *arguments]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert text in err or "--job" in err


def test_help_of_the_group_lists_it_without_importing_it():
    sys.modules.pop("twintrack.cli.import_", None)
    done = CliRunner().invoke(group, ["--help"])

    assert "import " in done.output
    assert "twintrack.cli.import_" not in sys.modules
