"""Starts the process that tries a folder out, and passes on what it says it is doing."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel

from twintrack.errors import RunFailed
from twintrack.pilot.convert.proof import Request
from twintrack.pilot.convert.records import Check

__all__ = ["try_out"]


class _Result(BaseModel):
    checks: tuple[Check, ...]


def try_out(request: Request, scratch: Path, say: Callable[[str], None]) -> tuple[Check, ...]:
    """Run ``twintrack.pilot.convert.proof`` on a request.

    Args:
        request: what is to be tried.
        scratch: existing folder for request and result.
        say: told what the process is doing.

    Raises:
        RunFailed: if the process died; with the last thing that it said.
    """
    asked, answered = scratch / f"{request.layout}-request.json", scratch / f"{request.layout}-result.json"
    asked.write_text(request.model_dump_json())
    answered.unlink(missing_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "twintrack.pilot.convert.proof", str(asked), str(answered)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    try:
        errors = _follow(process, say)
    except BaseException:
        process.kill()
        process.wait()
        raise
    if process.returncode != 0 or not answered.exists():
        last = next((line for line in reversed(errors) if line.strip()), "nothing said")
        raise RunFailed(
            "a process that tries the folder out to its end",
            found=f"exit code {process.returncode}: {last}",
            where=str(request.folder),
            remedy="mend the cause, and convert again",
        )
    return _Result.model_validate_json(answered.read_bytes()).checks


def _follow(process: subprocess.Popen[str], say: Callable[[str], None]) -> list[str]:
    """Pass standard output on until the process ends; returns what it wrote to standard error."""
    errors: list[str] = []
    stream = process.stderr
    reader = threading.Thread(target=lambda: errors.extend(stream or ()), daemon=True)
    reader.start()
    for line in process.stdout or ():
        say(line.strip())
    process.wait()
    reader.join()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    return errors
