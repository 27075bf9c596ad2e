"""The commands of the README do what the README shows.

Fenced blocks marked ``console`` are executed from top to bottom in one folder that holds a copy of
``examples/``. A line that begins with ``$ `` is a command and must succeed; lines below it must occur in its
output, in this order, blanks aside; ``...`` stands for lines left out. The demo's job is played by one of a tiny
model of the same name, and its run by one that was interrupted.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tiny_llama import write_tiny_model

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def _commands() -> list[tuple[str, list[str]]]:
    """Each command with the lines of output shown below it."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"^```console\n(.*?)^```", README, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            elif line.strip() not in ("", "..."):
                found[-1][1].append(" ".join(line.split()))
    return found


COMMANDS = _commands()


def test_the_readme_says_how_its_commands_are_found_before_it_shows_one():
    """``make setup`` puts ``twintrack`` and our ``python`` into ``.venv`` only."""
    told, first = README.find(". .venv/bin/activate"), README.find("```console")

    assert 0 < told < first


def _environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "TWINTRACK_CACHE": str(folder / "cache"),
        "COLUMNS": "200",
    }


JOB = """
name = "pilot-smollm2-chat"
model.source = "model"
data.files = ["train.jsonl"]
data.sequence_length = 64
lora.targets = ["q_proj"]
optimizer.learning_rate = 1e-2
stop.steps = 32
checkpoint.every_steps = 8
"""


def _demo_job() -> str:
    """A tiny job of the demo's name, with the demo's own answers and owners."""
    demo = tomllib.loads((ROOT / "examples" / "pilot" / "job.toml").read_text(encoding="utf-8"))
    lines = [JOB]
    for table in ("costs", "decision", "responsibility"):
        lines += [f"[{table}]", *(f"{key} = {json.dumps(value)}" for key, value in demo[table].items())]
    tracks = ('use = ["cpu"]\ncompute = "fp32"', 'use = ["trn2"]')
    stop = '[[stops]]\nkind = "polite"\nstep = 6'
    return "\n".join([*lines, stop, *(f"[[tracks]]\n{track}" for track in tracks)]) + "\n"


def _interrupted_run(folder: Path) -> None:
    """Start the pilot on a tiny model in ``folder`` and ask it to stop as soon as its worker starts."""
    inputs = folder / "examples" / "pilot"
    write_tiny_model(inputs / "model")
    sample = {"messages": [{"role": "user", "content": "who"}, {"role": "assistant", "content": "a robot"}]}
    (inputs / "train.jsonl").write_text(f"{json.dumps(sample)}\n" * 40)
    (inputs / "job.toml").write_text(_demo_job())
    command = [sys.executable, "-m", "twintrack", "pilot", "examples/pilot/job.toml"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=folder, env=_environment(folder), **pipes) as pilot:
        seen = []
        for line in pilot.stdout:
            seen.append(line)
            if "reference: starting" in line:
                pilot.terminate()
                break
        _, complaint = pilot.communicate(timeout=300)
    assert pilot.returncode == 130, "".join(seen) + complaint
    assert "--resume" in complaint


@pytest.mark.slow
def test_the_commands_of_the_readme_do_what_is_shown(tmp_path):
    """One test, because a later command uses what an earlier one made."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    _interrupted_run(tmp_path)

    for command, shown in COMMANDS:
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=tmp_path,
            env=_environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=300,
        )

        assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
        rest = iter([" ".join(line.split()) for line in done.stdout.splitlines()])
        for line in shown:
            assert any(line in printed for printed in rest), f"$ {command}\nno '{line}' in\n{done.stdout}"


def test_the_readme_shows_the_two_commands_first():
    fences = re.findall(r"^```\w*\n(.*?)^```", README, re.MULTILINE | re.DOTALL)

    assert [line.split()[:2] for line in fences[0].splitlines()] == [["make", "demo"], ["make", "test"]]


def test_the_readme_has_other_commands_to_try():
    assert len(COMMANDS) >= 5, "README.md: show commands in ```console blocks, each line beginning with '$ '"


def test_the_tree_in_the_readme_names_every_room_of_the_package():
    rooms = {
        path.name + ("/" if path.is_dir() else "")
        for path in (ROOT / "src" / "twintrack").iterdir()
        if path.name[0] not in "_." and path.suffix in ("", ".py")
    }
    missing = sorted(room for room in rooms if not re.search(rf"^ *{re.escape(room)} ", README, re.MULTILINE))

    assert not missing, f"README.md: add a line with one phrase to the tree for {missing}"
