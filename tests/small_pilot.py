"""A small job on a tiny model, and a display that keeps quiet, for tests that run the pilot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tiny_llama import write_tiny_model
from twintrack.job.records import Job
from twintrack.pilot.folders import RunKind, TrackRun
from twintrack.pilot.manifest import write_manifest
from twintrack.pilot.worker import World
from twintrack.storage import FileSystem, LocalFileSystem
from twintrack.tracks import choose

__all__ = ["FakeClock", "QuietDisplay", "make_run", "small_job", "world", "write_inputs"]


class FakeClock:
    """A clock that moves one millisecond with every look at it."""

    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def now(self) -> float:
        return self.monotonic()

    def monotonic(self) -> float:
        self.seconds += 0.001
        return self.seconds


class _QuietStage:
    def update(self, done: float | None, note: str) -> None:
        pass

    def finish(self, note: str) -> None:
        pass


class QuietDisplay:
    """Remembers lines, shows nothing."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def stage(self, name: str, total: float) -> _QuietStage:
        del name, total
        return _QuietStage()

    def say(self, text: str) -> None:
        self.lines.append(text)


def write_inputs(folder: Path) -> None:
    """A tiny model in ``model/`` and sixty chats with two slices in ``data.jsonl``."""
    write_tiny_model(folder / "model")
    lines = []
    for i in range(60):
        messages = [
            {"role": "user", "content": f"what is {i}"},
            {"role": "assistant", "content": f"it is the {i * 7 % 13} of {i}"},
        ]
        lines.append(json.dumps({"messages": messages, "slice": "ab"[i % 2]}))
    (folder / "data.jsonl").write_text("\n".join(lines) + "\n")


def small_job(**changes: Any) -> Job:
    """Six steps of LoRA on two tracks; top-level keys can be replaced."""
    job: dict[str, Any] = {
        "name": "small",
        "seed": 3,
        "model": {"source": "model"},
        "data": {"files": ["data.jsonl"], "sequence_length": 64},
        "lora": {"targets": ["q_proj", "down_proj"], "rank": 4},
        "stop": {"steps": 6},
        "batch": {"micro": 2, "accumulation": 2},
        "optimizer": {"learning_rate": 1e-2},
        "checkpoint": {"every_steps": 2},
        "evaluation": {"prompts": ["what is 3"], "answer_tokens": 3},
        "tracks": [{"use": ["cpu"], "compute": "fp32"}, {"use": ["trn2"]}],
    }
    return Job.model_validate_json(json.dumps({**job, **changes}))


def make_run(root: Path, inputs: Path, job: Job, track: str, kind: RunKind = "reference") -> TrackRun:
    """A run folder, with the folder of one run in it."""
    fs = LocalFileSystem()
    if not (root / "pilot.json").exists():
        write_manifest(root, job, inputs, choose(job), fs)
    run = TrackRun(root, track, kind)
    run.folder.mkdir(parents=True, exist_ok=True)
    return run


def world(cache: Path, *, fs: FileSystem | None = None, **other: Any) -> World:
    """A worker's world with a fake clock."""
    clock = FakeClock()
    return World(clock, fs or LocalFileSystem(), cache, clock.now(), lambda: False, **other)
