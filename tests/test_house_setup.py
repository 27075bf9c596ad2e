"""Setting up the environment: what a person on a fresh machine sees. A stand-in plays its Python."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "setup_env.py"
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


def _stand_in(venv: Path, *, version: str = VERSION, pip: str = "exit 0") -> Path:
    """An environment whose Python tells its version, notes its arguments in ``calls``, then does ``pip``."""
    python = venv / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(
        f'#!/bin/sh\nif [ "$1" = -c ]; then echo {version}; exit 0; fi\necho "$@" >> {venv}/calls\n{pip}\n'
    )
    python.chmod(0o755)
    return venv


def _setup(venv: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), "--venv", str(venv), *more], capture_output=True, text=True, check=False
    )


def _calls(venv: Path) -> list[str]:
    return (venv / "calls").read_text().splitlines()


def test_a_first_call_installs_and_a_second_one_does_nothing(tmp_path):
    venv = _stand_in(tmp_path / "venv")

    assert _setup(venv).returncode == 0
    first = _calls(venv)
    again = _setup(venv)

    assert any("[demo,dev]" in call for call in first)
    assert [call for call in first if "--no-deps" in call and "==" in call]
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert _calls(venv) == first


def test_a_changed_project_file_installs_again(tmp_path):
    venv = _stand_in(tmp_path / "venv")
    _setup(venv)
    record = json.loads((venv / "twintrack-setup.json").read_text())
    (venv / "twintrack-setup.json").write_text(json.dumps({**record, "files": "of another pyproject.toml"}))
    first = _calls(venv)

    _setup(venv)

    assert _calls(venv) == [*first, *first]


@pytest.mark.parametrize("damage", ["", "{", "[]", "null"])
def test_a_damaged_record_installs_again(tmp_path, damage):
    venv = _stand_in(tmp_path / "venv")
    (venv / "twintrack-setup.json").write_text(damage)

    assert _setup(venv).returncode == 0
    assert _calls(venv)


@pytest.mark.parametrize(
    ("pip", "said"),
    [
        ("echo NewConnectionError: refused >&2; exit 1", "is there a network"),
        ("echo 'ERROR: No matching distribution found for torch' >&2; exit 1", "is there a network"),
        ("echo no space >&2; exit 3", "pip ended with exit code 3"),
    ],
)
def test_a_failed_installation_says_so_in_one_line_and_leaves_no_record(tmp_path, pip, said):
    venv = _stand_in(tmp_path / "venv", pip=pip)

    done = _setup(venv)

    assert done.returncode == 1
    assert said in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert not (venv / "twintrack-setup.json").exists()


def test_an_environment_of_another_python_is_refused_and_left_alone(tmp_path):
    venv = _stand_in(tmp_path / "venv", version="3.10")

    done = _setup(venv)

    assert done.returncode == 1
    assert "was made with Python 3.10" in done.stderr
    assert "distclean" in done.stderr
    assert not (venv / "calls").exists()


def test_an_index_for_torch_is_used_for_torch_alone(tmp_path):
    venv = _stand_in(tmp_path / "venv")

    _setup(venv, "--torch-index", "file:///wheels")

    with_index = [call for call in _calls(venv) if "--index-url" in call]
    assert len(with_index) == 1
    assert "torch>=" in with_index[0]
    assert "demo" not in with_index[0]
    assert with_index[0] == _calls(venv)[0]


@pytest.mark.parametrize("version", ["(3, 6, 9)", "(3, 10, 2)", "(3, 14, 0)"])
def test_a_python_of_the_wrong_version_is_told_in_one_line(version):
    pretend = f"import sys, runpy; sys.version_info = {version}"
    code = f"{pretend}; runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert done.stderr.startswith("setup: twintrack needs Python 3.11, 3.12 or 3.13")
    assert "make test PYTHON=python3" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_old_python_can_read_the_script_as_far_as_its_message():
    ast.parse(SCRIPT.read_text(encoding="utf-8"), feature_version=(3, 6))
