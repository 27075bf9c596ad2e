"""``twintrack init`` and ``twintrack job``, as a person or a program meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from twintrack.cli.group import group, run
from twintrack.job import job_digest, load_job, training_digest
from twintrack.job.schema import job_schema
from twintrack.job.write import starter_job


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")


def test_init_writes_the_starter(capsys):
    assert run(group, ["init"]) == 0

    assert load_job(Path("job.toml")).job == starter_job()
    assert capsys.readouterr().out == "wrote job.toml; `twintrack job show job.toml` prints what it means\n"


def test_init_into_a_folder_or_under_a_name():
    Path("folder").mkdir()

    assert run(group, ["init", "folder"]) == 0
    assert run(group, ["init", "mine.toml"]) == 0

    assert load_job(Path("folder/job.toml")).job == load_job(Path("mine.toml")).job == starter_job()


def test_init_never_overwrites(capsys):
    Path("job.toml").write_text("mine")
    Path("dangling.toml").symlink_to("nowhere")

    assert run(group, ["init"]) == 2
    assert run(group, ["init", "dangling.toml"]) == 2

    assert Path("job.toml").read_text() == "mine"
    assert Path("dangling.toml").is_symlink()
    assert capsys.readouterr().err.splitlines() == [
        "twintrack: job.toml: required a path that is free, found a file; name another, or move it away",
        "twintrack: dangling.toml: required a path that is free, found a file; name another, or move it away",
    ]


def test_init_into_a_folder_that_is_not_there(capsys):
    assert run(group, ["init", "none/job.toml"]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("twintrack: none/job.toml: required an existing path")


def test_show_prints_every_value_and_its_origin(capsys):
    run(group, ["init"])
    capsys.readouterr()

    assert run(group, ["job", "show", "job.toml"]) == 0

    rows = [
        tuple(cell.strip() for cell in line.split("│")[1:-1])
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("│")
    ]
    origins = load_job(Path("job.toml")).origins
    assert [(key, origin) for key, _, origin in rows] == [(k, str(o)) for k, o in origins.items()]
    assert ("optimizer.learning_rate", "0.0002", "default") in rows
    assert ("data.limit", "not set", "default") in rows
    assert ("tracks[0].use", '["cuda", "cpu"]', str(origins["tracks[0].use"])) in rows


def test_show_leaves_nothing_out_where_the_terminal_is_narrow(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    run(group, ["init"])
    capsys.readouterr()

    assert run(group, ["job", "show", "job.toml"]) == 0

    assert "…" not in capsys.readouterr().out


def test_show_does_not_obey_what_stands_in_a_job(capsys):
    """Neither rich's markup nor the escape codes of a terminal."""
    run(group, ["init"])
    text = Path("job.toml").read_text().replace("#prompts = []", r'prompts = ["[red]x[/red]\u001b[31m"]')
    Path("job.toml").write_text(text)
    capsys.readouterr()

    assert run(group, ["job", "show", "job.toml"]) == 0

    out = capsys.readouterr().out
    assert r'["[red]x[/red]\u001b[31m"]' in out
    assert "\x1b" not in out


def test_show_as_json(capsys):
    run(group, ["init"])
    capsys.readouterr()

    assert run(group, ["job", "show", "job.toml", "--json"]) == 0

    shown = json.loads(capsys.readouterr().out)
    assert shown["digest"] == job_digest(starter_job())
    assert shown["training_digest"] == training_digest(starter_job())
    values = {entry["key"]: entry for entry in shown["values"]}
    assert set(values) == set(load_job(Path("job.toml")).origins)
    assert values["seed"] == {"key": "seed", "value": 0, "origin": "default", "line": None}
    name = values["name"]
    assert Path("job.toml").read_text().splitlines()[name["line"] - 1] == 'name = "my-job"'
    assert (name["value"], name["origin"]) == ("my-job", f"job.toml:{name['line']}")


def test_schema_prints_the_schema(capsys):
    assert run(group, ["job", "schema"]) == 0

    assert json.loads(capsys.readouterr().out) == job_schema()


def test_a_bad_job_is_one_line_and_exit_code_2(capsys):
    Path("job.toml").write_text("name = 1")

    assert run(group, ["job", "show", "job.toml"]) == 2

    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("twintrack: job.toml:1: name: required text")
