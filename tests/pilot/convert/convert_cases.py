"""Runs and conversions of tiny models, tried out in this process, for the tests of conversion."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from small_pilot import FakeClock, small_job
from twintrack.job.records import Job
from twintrack.pilot.convert.convert import Conversion, World, convert
from twintrack.pilot.convert.plan import Wish
from twintrack.pilot.convert.proof import Request, prove
from twintrack.pilot.convert.records import Check
from twintrack.storage import FileSystem, LocalFileSystem

__all__ = ["Kept", "QuietStage", "convert_here", "failed_names", "job_of", "prove_here"]


class QuietStage:
    """Remembers what was said."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def update(self, done: float | None, note: str) -> None:
        self.notes.append(note)

    def finish(self, note: str) -> None:
        self.notes.append(note)


@dataclass
class Kept:
    """A conversion whose trial can be made again, on the same folder or on a spoiled copy."""

    conversion: Conversion
    requests: list[Request]
    out: Path

    def prove(self, folder: Path, **changes: Any) -> dict[str, Check]:
        request = self.requests[-1].model_copy(update={"folder": folder, **changes})
        return {check.name: check for check in prove(request, lambda text: None)}


def prove_here(request: Request, scratch: Path, say: Callable[[str], None]) -> tuple[Check, ...]:
    """The trial without another process."""
    return prove(request, say)


def convert_here(
    cache: Path, keep: Path, source: str, to: str, out: Path, *, fs: FileSystem | None = None, **wish: Any
) -> Kept:
    """Convert, with the trial in this process and its files kept in ``keep``."""
    requests: list[Request] = []

    def trial(request: Request, scratch: Path, say: Callable[[str], None]) -> tuple[Check, ...]:
        keep.mkdir(parents=True, exist_ok=True)
        paths = {}
        for kind in ("probe", "answers"):
            paths[kind] = keep / f"{len(requests)}-{kind}.safetensors"
            shutil.copyfile(getattr(request, kind), paths[kind])
        requests.append(request.model_copy(update=paths))
        return prove(request, say)

    wished = Wish(source=source, to=to, out=out, **wish)  # type: ignore[arg-type]
    world = World(cache, fs or LocalFileSystem(), FakeClock(), QuietStage(), trial)
    return Kept(convert(wished, world), requests, out)


def job_of(kind: str, **changes: Any) -> Job:
    """A LoRA job, or one that tunes the whole model with weight decay."""
    if kind == "full":
        changes = {"lora": None, "optimizer": {"learning_rate": 1e-3, "weight_decay": 0.1}, **changes}
    return small_job(**changes)


def failed_names(checks: dict[str, Check]) -> set[str]:
    return {name for name, check in checks.items() if not check.passed}
