"""Running one task in a process of its own and reading what became of its tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree.ElementTree import ParseError

from _conformance._outcomes import Outcome, read_junit
from _conformance._tasks import STAND_IN, Task

__all__ = ["run"]

# What a task sees of our own environment; the rest could change what is measured.
_KEPT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "SYSTEMROOT", "VIRTUAL_ENV")
_NO_TESTS_COLLECTED = 5


def run(task: Task, scratch: Path, number: int, limit_s: float) -> list[Outcome]:
    """Run a task and return its outcomes; its output stands in ``scratch/logs`` afterwards.

    Args:
        task: what to run.
        scratch: folder for logs, results, and what the process takes for its home and temporary folder.
        number: distinguishes the files of one task from those of another.
        limit_s: seconds after which the process is killed and the task has failed.
    """
    log, junit = scratch / "logs" / f"{number:04d}.txt", scratch / "results" / f"{number:04d}.xml"
    for folder in (log.parent, junit.parent, scratch / "home", scratch / "tmp"):
        folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, *task.arguments, *([f"--junitxml={junit}"] if task.is_pytest else [])]
    with log.open("w", encoding="utf-8") as stream:
        stream.write(f"{task.suite}: {task.test}\n{' '.join(command[1:])}\n\n")
        stream.flush()
        try:
            code = subprocess.run(
                command, cwd=task.folder, env=_environment(task, scratch), stdin=subprocess.DEVNULL, stdout=stream,
                stderr=subprocess.STDOUT, timeout=limit_s, check=False,
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            return [Outcome(task.suite, task.test, "failed", f"not done after {limit_s:g} s")]
    said = log.read_text(encoding="utf-8", errors="replace")
    return _of_pytest(task, junit, code, said) if task.is_pytest else [_of_script(task, code, said)]


def _environment(task: Task, scratch: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    paths = [*task.paths, STAND_IN]
    return {
        **kept,
        "HOME": str(scratch / "home"),
        "TMPDIR": str(scratch / "tmp"),
        "TRNBLAS_AUTOTUNE_CACHE": str(scratch / "tmp" / "autotune.json"),
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "NEURON_PLATFORM_TARGET_OVERRIDE": "trn2",
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
        **task.environment,
    }


def _of_pytest(task: Task, junit: Path, code: int, said: str) -> list[Outcome]:
    """What the junit file tells; a process that failed without a failed test is itself a failure."""
    try:
        outcomes = read_junit(junit, task.suite) if junit.is_file() else []
    except ParseError:
        outcomes = []
    told = any(outcome.result == "failed" for outcome in outcomes)
    if code not in (0, _NO_TESTS_COLLECTED) and not told:
        outcomes.append(Outcome(task.suite, task.test, "failed", f"exit code {code}: {_last_line(said)}"))
    return outcomes


def _of_script(task: Task, code: int, said: str) -> Outcome:
    """Whether a script did what it was to do: agree with its reference, or be refused."""
    body = said.split("\n\n", 1)[-1]
    if task.refused:
        if code and re.search(task.refused, _last_line(body)):
            return Outcome(task.suite, task.test, "passed")
        return Outcome(
            task.suite, task.test, "failed", f"to be refused, but exit code {code}: {_last_line(body)}"
        )
    if code:
        return Outcome(task.suite, task.test, "failed", _last_line(body))
    for pattern in task.mismatch:
        if found := re.search(pattern, body):
            return Outcome(task.suite, task.test, "failed", f"printed {found.group()!r}")
    return Outcome(task.suite, task.test, "passed")


def _last_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return " ".join(lines[-1].split())[:300] if lines else "no output"
