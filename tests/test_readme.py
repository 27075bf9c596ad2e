"""The commands of the README do what the README shows.

Fenced blocks marked ``console`` are executed from top to bottom in one folder that holds a copy of
``examples/``. A line that begins with ``$ `` is a command and must succeed; lines below it must occur in its
output, in this order, blanks aside; ``...`` stands for lines left out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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


def _run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "COLUMNS": "200",
        "PYTHONUTF8": "1",
    }
    return subprocess.run(
        ["sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )


@pytest.mark.slow
def test_the_commands_of_the_readme_do_what_is_shown(tmp_path):
    """One test, because a later command uses what an earlier one made."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")

    for command, shown in COMMANDS:
        done = _run(command, tmp_path)

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
