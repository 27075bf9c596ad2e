"""What is written as TOML loads back to the same job, and tells of every key."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from job_strategies import jobs

from twintrack.job.keys import dotted
from twintrack.job.load import effective_values, load_job
from twintrack.job.records import Job
from twintrack.job.write import job_toml, starter_job, toml_value


def _load(folder: Path, text: str) -> Job:
    path = folder / "job.toml"
    path.write_text(text, encoding="utf-8", newline="")
    return load_job(path).job


def _without_marks(text: str) -> str:
    """All keys as if the user had removed the ``#`` before each."""
    return re.sub(r"^#(?=[a-z\[])", "", text, flags=re.MULTILINE)


@settings(
    deadline=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(jobs())
def test_every_job_loads_back_from_what_is_written(tmp_path, job):
    assert _load(tmp_path, job_toml(job)) == job


def test_the_starter_loads_back_to_the_job_it_was_made_from(tmp_path):
    assert _load(tmp_path, job_toml(starter_job())) == starter_job()


def test_every_key_stands_in_the_starter_with_meaning_and_default(tmp_path):
    """A paragraph of prose before each key, which says what it takes and its default."""
    text = job_toml(starter_job())
    keys = {dotted(key).rpartition(".")[2] for key, _ in effective_values(starter_job())}

    told = re.findall(r"(?:^# .+\n)+(?=#?([a-z_0-9]+) = )", text, re.MULTILINE)
    last_lines = re.findall(r"^# (.+)\n#?[a-z_0-9]+ = ", text, re.MULTILINE)

    assert set(told) == keys
    assert all(re.search(r"; (required|default .+|not set by default)\.$", line) for line in last_lines)


def test_the_values_behind_marks_are_the_defaults(tmp_path):
    """Removing the marks of keys that have a default changes nothing."""
    lines = job_toml(starter_job()).split("\n")
    for number, line in enumerate(lines):
        if re.match(r"#[a-z]", line) and "not set by default" not in lines[number - 1]:
            lines[number] = line[1:]

    assert _load(tmp_path, "\n".join(lines)) == starter_job()


def test_the_examples_behind_marks_are_valid(tmp_path):
    """All marks removed, ``data.limit = 1000`` and its like are values that a job may have."""
    job = _load(tmp_path, _without_marks(job_toml(starter_job())))

    assert (job.data.limit, job.tracks[0].instance) == (1000, "trn2.48xlarge")


def test_tables_that_a_job_has_not_are_shown_behind_marks(tmp_path):
    """LoRA and stops can be switched on by removing marks."""
    bare = starter_job().model_copy(update={"lora": None, "stops": ()})
    text = job_toml(bare)

    assert _load(tmp_path, text) == bare
    job = _load(tmp_path, _without_marks(text))
    assert job.lora is not None
    assert [stop.kind for stop in job.stops] == ["polite"]


def test_every_character_survives():
    """Control characters, which TOML wants escaped, quotes, and characters outside of the basic plane."""
    for text in (*map(chr, range(0x100)), "\u2028", "\U0001f600", '\\"', "'''"):
        assert tomllib.loads(f"text = {toml_value(text)}")["text"] == text


def test_what_toml_has_no_notation_for_is_refused():
    with pytest.raises(TypeError, match="no TOML for a NoneType"):
        toml_value(None)
