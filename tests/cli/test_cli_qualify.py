"""``twintrack qualify`` from the outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tiny_llama import write_tiny_model
from twintrack.cli.group import group, run

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "qualify"
JOB = """
name = "small"
[model]
source = "model"
[data]
files = ["train.jsonl"]
template = "text"
loss_on = "all"
sequence_length = 32
[lora]
targets = ["q_proj", "v_proj"]
rank = 4
[stop]
steps = 3
[[tracks]]
use = ["cpu"]
[[tracks]]
use = ["trn2"]
"""


@pytest.fixture(scope="module")
def job(tmp_path_factory) -> Path:
    """A job on a tiny model with data."""
    folder = tmp_path_factory.mktemp("qualify")
    write_tiny_model(folder / "model")
    for weights in (folder / "model").glob("*.safetensors"):
        weights.unlink()  # nothing may need them
    (folder / "train.jsonl").write_text(
        "".join(json.dumps({"text": f"text {i} " * 3}) + "\n" for i in range(20))
    )
    (folder / "job.toml").write_text(JOB)
    return folder / "job.toml"


def test_the_verdict_of_every_track_comes_first_and_no_weight_is_needed(job, capsys):
    code = run(group, ["qualify", str(job), "--full"])

    lines = capsys.readouterr().out.splitlines()
    assert code == 0
    assert lines[0].startswith("small: model,")
    assert lines[1].startswith("! cpu (CPU, bf16) unknown")
    assert any(line.startswith("✓ trn2 (trn2.48xlarge, bf16) fits") for line in lines)
    for title in ("programs to compile", "operators of the step", "the job's need against the catalogue"):
        assert any(title in line for line in lines)


def test_json_holds_the_verdict_every_formula_and_the_programs(job, capsys):
    code = run(group, ["qualify", str(job), "--track", "trn2", "--json", "--published"])

    found = json.loads(capsys.readouterr().out)
    assert code == 0
    assert found["format"] == "twintrack.qualification/1"
    (place,) = found["places"]
    assert place["verdict"] == "fits"
    assert all(part["size"]["source"] for part in place["memory"]["peak"]["parts"])
    assert found["shapes"]["programs"]["value"] == 3  # gradients, update, evaluate
    assert {one["key"] for one in found["published"]} >= {"neuron-884-llama-3-70b"}


def test_what_is_done_is_shown_while_it_is_done(job, capsys, monkeypatch):
    shown: list[str] = []
    monkeypatch.setattr("rich.status.Status.update", lambda _, text: shown.append(text))

    code = run(group, ["qualify", str(job), "--track", "cpu", "--json"])

    assert code == 0
    assert json.loads(capsys.readouterr().out)["job"] == "small"
    assert shown == [
        "small: reading the model's configuration",
        "small: holding its memory against the devices",
        "small: counting programs and operators of the training step",
    ]


def test_counts_are_whole_and_names_of_memory_are_explained(job, capsys):
    run(group, ["qualify", str(job), "--track", "trn2"])

    text = " ".join(capsys.readouterr().out.split())
    assert "all 3 program D" in text
    assert "device(s)" not in text
    assert "LoRA: the adapters in the compute type" in text
    assert "master weights: the same adapters in float32" in text


def test_published_needs_no_job(capsys):
    code = run(group, ["qualify", "--published"])

    assert code == 0
    assert "error of our estimates" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "give a job file"),
        (["JOB", "--instance", "trn2.48xlrge"], "trn2.48xlarge"),
        (["JOB", "--track", "tpu"], "one of the tracks"),
        (["missing.toml"], "no such file"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(arguments, text, job, capsys):
    code = run(group, ["qualify", *(str(job) if one == "JOB" else one for one in arguments)])

    error = capsys.readouterr().err
    assert code == 2
    assert text in error
    assert len(error.strip().splitlines()) == 1


@pytest.mark.parametrize("example", ["llama-3.1-8b", "llama-3.1-70b"])
def test_real_sizes_qualify_in_two_gibibytes(example):
    """Imports included; peak resident set of a process of its own."""
    code = (
        "import resource, sys; from twintrack.cli.group import group, run;"
        f"done = run(group, ['qualify', {str(EXAMPLES / example / 'job.toml')!r}]);"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr); sys.exit(done)"
    )
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )

    assert done.returncode == 0, done.stderr
    assert int(done.stderr.split()[-1]) * 1024 < 2 * 2**30
