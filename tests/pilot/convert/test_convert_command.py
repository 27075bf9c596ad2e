"""``twintrack convert`` as a user calls it: with a real second process, exit codes, one line for a mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from convert_cases import job_of

from small_pilot import make_run, world, write_inputs
from twintrack.cli import group as commands
from twintrack.cli.group import run as run_command
from twintrack.job.write import job_toml
from twintrack.pilot.convert.records import PROOF, Proof
from twintrack.pilot.worker import run_leg


def call(*arguments: object) -> int:
    try:
        return run_command(commands.group, ["convert", *map(str, arguments)])
    except SystemExit as leave:
        return int(leave.code or 0)


@pytest.mark.slow
def test_the_command_converts_proves_in_another_process_and_comes_back(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_inputs(tmp_path)
    job = job_of("lora", tracks=[{"use": ["cpu"], "compute": "fp32"}])
    (tmp_path / "job.toml").write_text(job_toml(job))
    cache = tmp_path / "cache"
    run_leg(make_run(tmp_path / "run", tmp_path, job, "cpu"), world(cache))
    there, back = tmp_path / "peft", tmp_path / "home"

    assert call(f"{tmp_path / 'run'}@4", there, "--to", "peft", "--cache", cache) == 0
    said = capfd.readouterr()
    assert "proven by 9 checks" in " ".join(said.out.split())
    assert "Traceback" not in said.err
    assert (
        call(there, back, "--to", "twintrack", "--job", tmp_path / "job.toml", "--cache", cache, "--json")
        == 0
    )
    printed = Proof.model_validate_json(capfd.readouterr().out)
    assert printed.passed
    assert printed == Proof.model_validate_json((back / PROOF).read_bytes())
    assert {"source: logits", "state", "data position", "continued step"} <= {c.name for c in printed.checks}

    # an adapter with other settings than the job's is refused before anything is written
    config = json.loads((there / "adapter_config.json").read_text())
    config["r"] = 8
    (there / "adapter_config.json").write_text(json.dumps(config))
    spoiled = tmp_path / "spoiled"
    assert call(there, spoiled, "--to", "hf", "--job", tmp_path / "job.toml", "--cache", cache) == 2
    assert "r = 4, as the job says" in capfd.readouterr().err
    assert not spoiled.exists()


@pytest.mark.slow
def test_a_failed_proof_ends_with_1_and_a_marked_folder(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The state before the first step has an adapter without effect: it is converted, and not proven."""
    write_inputs(tmp_path)
    job = job_of("lora", tracks=[{"use": ["cpu"], "compute": "fp32"}], optimizer={"learning_rate": 1e-38})
    cache = tmp_path / "cache"
    run_leg(make_run(tmp_path / "run", tmp_path, job, "cpu"), world(cache))

    assert call(f"{tmp_path / 'run'}@2", tmp_path / "out", "--to", "hf", "--cache", cache) == 1

    said = " ".join(capfd.readouterr().out.split())
    assert "NOT proven: 1 failed" in said
    assert "no logit differs from the base model's" in said
    proof = Proof.model_validate_json((tmp_path / "out" / PROOF).read_bytes())
    assert [check.name for check in proof.checks if not check.passed] == ["adapter effect"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--to", "peft", "--tensor", "2"], "--tensor goes with --to twintrack only"),
        (["--to", "hf", "--track", "cpu"], "--track goes with --to twintrack only"),
        (["--to", "peft", "--fresh-optimizer"], "--fresh-optimizer goes with --to twintrack only"),
        (["--to", "twintrack", "--dtype", "bf16"], "--dtype goes with --to peft or hf only"),
        (["--to", "twintrack", "--pipeline", "2", "--track", "cpu"], "leave --track away"),
        (["--to", "gguf"], "gguf"),
        (["--to", "peft"], "run folder"),
        ([], "--to"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(tmp_path / "nothing", tmp_path / "out", *options) == 2

    err = capsys.readouterr().err
    assert said in err
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()
