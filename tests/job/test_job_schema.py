"""The JSON Schema says what the loader accepts, in words and in rules."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from job_strategies import MINIMAL, jobs

from twintrack.job.load import load_job
from twintrack.job.schema import JobSchema, job_schema, requirement
from twintrack.job.write import job_toml, starter_job

_EXAMPLES = sorted((Path(__file__).parents[2] / "examples").rglob("job*.toml"))


@cache
def _validator() -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(job_schema())
    return jsonschema.Draft202012Validator(job_schema())


def test_the_schema_names_its_dialect():
    assert job_schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_the_starter_is_valid():
    _validator().validate(tomllib.loads(job_toml(starter_job())))


@pytest.mark.parametrize("path", _EXAMPLES, ids=lambda path: path.parent.name)
def test_every_example_is_valid_and_loads(path):
    _validator().validate(tomllib.loads(path.read_text(encoding="utf-8")))

    assert load_job(path).job.tracks


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(job=jobs())
def test_every_job_is_valid(job):
    _validator().validate(tomllib.loads(job_toml(job)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("steps = 40", "steps = 0"),
        ("steps = 40", "steps = '40'"),
        ("steps = 40", "step = 40"),
        ("[stop]\nsteps = 40\n", ""),
        ('name = "small"', 'name = "no spaces"'),
        ('name = "small"', 'name = "small"\noptimizer = {max_gradient_norm = "always"}'),
        ('use = ["cpu"]', 'use = ["gpu"]'),
        ('use = ["cpu"]', "use = []"),
        ('use = ["cpu"]', 'use = ["cpu"]\nlogical_cores = 3'),
        ('files = ["train.jsonl"]', "files = [1]"),
    ],
)
def test_what_the_loader_refuses_of_one_value_the_schema_refuses(old, new):
    assert old in MINIMAL

    assert not _validator().is_valid(tomllib.loads(MINIMAL.replace(old, new)))


def _keys(schema: JobSchema, table: tuple = ()) -> list[tuple]:
    keys = [(*table, name) for name in schema.known(table)]
    return keys + [
        inner
        for key in keys
        for under in (key, (*key, 0))
        if schema.known(under)
        for inner in _keys(schema, under)
    ]


def test_every_key_and_table_is_described_in_one_line():
    schema = JobSchema.of_jobs()
    keys = _keys(schema)

    assert ("tracks", 0, "use") in keys
    for key in keys:
        node = schema.at(key)
        assert node["description"].endswith("."), key
        assert "\n" not in node["description"], key
        assert "``" not in node["description"], key
        assert requirement(node), key


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (("stop", "steps"), "a whole number from 1 to 100,000,000"),
        (("optimizer", "beta1"), "a number of 0 or more, below 1"),
        (("optimizer", "max_gradient_norm"), 'a number above 0, at most 1e+12 or "never"'),
        (("optimizer", "name"), '"adamw"'),
        (("data", "packing"), "true or false"),
        (("data", "files"), "a list of at least one text"),
        (("evaluation", "prompts"), "a list of texts"),
        (("evaluation", "prompts", 0), "text of 1 to 10000 characters"),
        (("data", "prompt_format"), "text of at most 10000 characters"),
        (("tracks",), "a list of at least one table"),
        (("tracks", 0, "compute"), 'one of "bf16", "fp32"'),
        (("lora",), "a table"),
    ],
)
def test_what_a_key_takes_is_said_in_words(key, words):
    assert requirement(JobSchema.of_jobs().at(key)) == words
