"""``twintrack checkpoint`` finds what is there, says what state it is in, and ends as it promises."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result

from twintrack.cli.checkpoint import command
from twintrack.clock import SystemClock
from twintrack.errors import CheckpointError, StorageError
from twintrack.job.records import CheckpointPolicy
from twintrack.storage import LocalFileSystem
from twintrack.training.checkpoint import Checkpointer, TrainingState

JOB = "c" * 64


def save(folder: Path, *steps: int) -> None:
    policy = CheckpointPolicy(every_steps=1, keep=9)
    with Checkpointer(LocalFileSystem(), folder, SystemClock(), policy, JOB, lambda event: None) as saver:
        for step in steps:
            tensors = {
                "weights/a": torch.full((2, 3), step, dtype=torch.bfloat16),
                "master/a": torch.full((2, 3), float(step)),
            }
            saver.save(TrainingState(step, tensors, {"sampler": {"position": step}, "note": "[bold]x"}))


@pytest.fixture
def run(tmp_path):
    """A run with two folders of checkpoints: a whole one, and one with damage and debris."""
    save(tmp_path / "cpu" / "checkpoints", 10, 20)
    broken = tmp_path / "trn2" / "checkpoints"
    save(broken, 10, 20, 30)
    file = broken / "step-00000020" / "master-00001.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\x01")
    (broken / "step-00000030" / "manifest.json").unlink()
    return tmp_path


def call(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def test_list_shows_every_checkpoint_below_the_folder(run):
    found = json.loads(call("list", run, "--json").stdout)
    assert [(Path(e["folder"]).parent.name, e["step"], e["status"]) for e in found] == [
        ("cpu", 10, "complete"),
        ("cpu", 20, "complete"),
        ("trn2", 10, "complete"),
        ("trn2", 20, "complete"),
        ("trn2", 30, "debris"),
    ]
    whole = run / "cpu" / "checkpoints" / "step-00000010"
    size = sum(file.stat().st_size for file in whole.iterdir() if file.name != "manifest.json")
    assert (found[0]["bytes"], found[0]["files"], found[0]["job_digest"]) == (size, 3, JOB)
    text = call("list", run)
    assert text.exit_code == 0
    assert str(run / "cpu" / "checkpoints") in text.stdout
    assert "debris of a write or removal that did not end" in text.stdout


def test_verify_lists_all_and_then_refuses_the_damaged_one(run):
    result = call("verify", run)
    assert isinstance(result.exception, CheckpointError)
    assert result.exception.exit_code == 2
    assert "1 damaged of 5" in str(result.exception)
    assert "step-00000020" in str(result.exception)
    assert result.stdout.count("verified") == 3
    assert "SHA-256" in result.stdout
    assert result.stdout.count("debris") >= 1


def test_verify_of_whole_ones_succeeds_and_debris_is_no_damage(run):
    assert call("verify", run / "cpu").exit_code == 0
    (run / "cpu" / "checkpoints" / "step-00000020" / "manifest.json").unlink()
    result = call("verify", run / "cpu", "--json")
    assert result.exit_code == 0
    assert [entry["status"] for entry in json.loads(result.stdout)] == ["verified", "debris"]


def test_one_step_can_be_named(run):
    step = run / "trn2" / "checkpoints" / "step-00000010"
    assert [entry["step"] for entry in json.loads(call("verify", step, "--json").stdout)] == [10]
    assert json.loads(call("show", step, "--json").stdout)["step"] == 10


def test_show_tells_what_is_inside(run):
    shown = json.loads(call("show", run / "cpu", "--json").stdout)
    assert shown["step"] == 20
    assert shown["values"] == {"sampler": {"position": 20}, "note": "[bold]x"}
    assert shown["tensors"] == {
        "master/a": {"dtype": "F32", "shape": [2, 3], "file": "master-00001.safetensors"},
        "weights/a": {"dtype": "BF16", "shape": [2, 3], "file": "weights-00001.safetensors"},
    }
    lines = [line.split() for line in call("show", f"{run / 'cpu'}@10").stdout.splitlines()]
    assert ["master", "1", "F32", "6", "24"] in lines
    assert ["weights", "1", "BF16", "6", "12"] in lines
    assert ["note", '"[bold]x"'] in lines
    assert ["sampler", '{"position":', "10}"] in lines


def test_show_without_a_step_takes_the_newest_complete_one(run):
    assert json.loads(call("show", run / "trn2", "--json").stdout)["step"] == 20


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("list", "absent"), StorageError, "required an existing path to look for checkpoints"),
        (("list", "empty"), CheckpointError, "required checkpoints at or below this folder, found none"),
        (("verify", "empty"), CheckpointError, "found none"),
        (("show", "."), CheckpointError, "required one folder of checkpoints, found 2"),
        (("show", "cpu@15"), CheckpointError, "required a checkpoint of step 15, found steps 10, 20"),
        (("show", "trn2@30"), CheckpointError, "debris"),
        (("show", "empty"), CheckpointError, "found none"),
        (("list", "notes.txt"), StorageError, "required a folder to look for checkpoints"),
    ],
)
def test_mistakes_end_in_one_line_and_exit_code_2(run, arguments, error, message):
    (run / "empty").mkdir()
    (run / "notes.txt").write_text("x")
    result = call(arguments[0], run / arguments[1] if arguments[1] != "." else run)
    assert isinstance(result.exception, error)
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)
    assert result.exception.exit_code == 2


@pytest.mark.slow
def test_the_real_command_exits_with_2_and_no_traceback(run):
    result = subprocess.run(
        [sys.executable, "-m", "twintrack", "checkpoint", "verify", str(run)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert "verified" in result.stdout
    assert result.stderr.startswith("twintrack: ")
    assert result.stderr.count("\n") == 1
